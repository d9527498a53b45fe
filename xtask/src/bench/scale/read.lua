-- Load for `cargo xtask bench scale`: each request reads one plant that is there, or a page of 100,
-- anywhere in the range of ids.
--
-- Arguments: `plant` or `page`, and for plants the ranges of the counters that were created, each as FIRST-END.

local is_page
local head
local tail
-- The first counter of each range, and how many counters all ranges before it have.
local firsts = {}
local befores = {}
local total = 0

function init(args)
  math.randomseed(thread_index + 1)
  is_page = args[2] == "page"
  for index = 3, #args do
    local first, past = args[index]:match("^(%d+)-(%d+)$")
    firsts[#firsts + 1] = tonumber(first)
    befores[#befores + 1] = total
    total = total + tonumber(past) - tonumber(first)
  end
  head = is_page and "GET /plants?limit=100&after=" or "GET /plants/"
  tail = headers() .. "\r\n"
end

-- An id that was created, each as likely as any other.
local function existing_id()
  local pick = math.random(0, total - 1)
  local low, high = 1, #befores
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if befores[middle] <= pick then
      low = middle
    else
      high = middle - 1
    end
  end
  return scattered(firsts[low] + pick - befores[low])
end

function request()
  local id = is_page and math.random(0, 0x1FFFFFFFFFFFFF) or existing_id()
  return head .. digits_of(id) .. tail
end
