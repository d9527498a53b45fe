-- Load for `cargo xtask bench scale`: each request reads one plant that is there, or a page of 100,
-- anywhere in the range of ids.
--
-- Arguments: the number of threads, `plant` or `page`, and for plants the ranges of the counters that
-- were created, each as FIRST-END. The environment holds the token in PLANTD_TOKEN.

-- Those of create.lua: they make ids of counters.
local id_limit = 0x20000000000000ULL
local id_factor = 0x9E3779B97F4A7C15ULL

-- Set by setup() in the global environment of each thread.
thread_index = 0

local is_page
local head
local tail
-- The first counter of each range, and how many counters all ranges before it have.
local firsts = {}
local befores = {}
local total = 0

local next_thread_index = 0

function setup(thread)
  thread:set("thread_index", next_thread_index)
  next_thread_index = next_thread_index + 1
end

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
  tail = table.concat({
    " HTTP/1.1",
    "Host: " .. wrk.headers["Host"],
    "Authorization: Bearer " .. os.getenv("PLANTD_TOKEN"),
    "\r\n",
  }, "\r\n")
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
  return tonumber((id_factor * (firsts[low] + pick - befores[low])) % id_limit)
end

function request()
  local id = is_page and math.random(0, 0x1FFFFFFFFFFFFF) or existing_id()
  return head .. string.format("%.0f", id) .. tail
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'wrk-result {"requests":%d,"duration_us":%d,"status_errors":%d,"socket_errors":%d,'
      .. '"latency_p50_us":%d,"latency_p90_us":%d,"latency_p99_us":%d}\n',
    summary.requests,
    summary.duration,
    errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50),
    latency:percentile(90),
    latency:percentile(99)
  ))
end
