
-- One request in ten creates a plant, each other one reads one that was there before.
function request()
  if math.random(10) == 1 then
    return create_request()
  end
  return read_request("/" .. any_stored_digits())
end
