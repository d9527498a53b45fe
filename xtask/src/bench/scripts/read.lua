
-- Each request reads a plant that is there.
function request()
  return read_request("/" .. any_stored_digits())
end
