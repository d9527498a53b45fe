
-- Each request creates a plant that was never created before.
request = create_request
