
-- Each request lists the 100 plants behind one that is there.
function request()
  return read_request("?limit=100&after=" .. any_stored_digits())
end
