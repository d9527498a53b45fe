-- What all scripts for wrk have in common. The text of the others comes behind it, in the same script.
--
-- Arguments: the number of threads first, and then what each script says.
-- The environment holds the token in PLANTD_TOKEN, and in PLANTD_ADDRESSES the addresses of the servers, with spaces
-- between them.

-- Ids stay below it, because a Lua number holds every integer up to it exactly.
local id_limit = 0x20000000000000ULL
-- Odd, so that multiplication by it, modulo a power of two, maps no two counters to one id.
local id_factor = 0x9E3779B97F4A7C15ULL

-- Set by setup() in the global environment of each thread.
thread_index = 0

local threads = {}

function setup(thread)
  local addresses = {}
  for host, port in os.getenv("PLANTD_ADDRESSES"):gmatch("(%S+):(%d+)") do
    addresses[#addresses + 1] = { host, port }
  end
  local address = addresses[#threads % #addresses + 1]
  thread.addr = wrk.lookup(address[1], address[2])[1]
  thread:set("thread_index", #threads)
  threads[#threads + 1] = thread
end

local function scattered(number)
  return tonumber((id_factor * number) % id_limit)
end

local function digits_of(id)
  return string.format("%.0f", id)
end

-- The load generator shares the cores with the server: the scripts build the text of each request
-- themselves, because wrk.format goes through all headers each time. This is what stands in all of them.
local function headers()
  return table.concat({
    " HTTP/1.1",
    "Host: " .. wrk.headers["Host"],
    "Authorization: Bearer " .. os.getenv("PLANTD_TOKEN"),
    "",
  }, "\r\n")
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
