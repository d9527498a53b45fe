-- What the loads of the suite have in common. Behind it, in the same script, comes one of the others: it has `request`.
--
-- Arguments: the first counter of new plants, `ascending` or `random` ids of new plants, and how many plants the
-- store has.

-- Names with their tags; each family stands once, so that there are 100 tags.
local plants = {
  { "Eastern white pine", "Pinaceae" },
  { "Red maple", "Sapindaceae" },
  { "White oak", "Fagaceae" },
  { "Paper birch", "Betulaceae" },
  { "Black walnut", "Juglandaceae" },
  { "American elm", "Ulmaceae" },
  { "White ash", "Oleaceae" },
  { "Weeping willow", "Salicaceae" },
  { "Tulip tree", "Magnoliaceae" },
  { "Sweetgum", "Altingiaceae" },
  { "Bald cypress", "Cupressaceae" },
  { "English yew", "Taxaceae" },
  { "Maidenhair tree", "Ginkgoaceae" },
  { "Sago palm", "Cycadaceae" },
  { "Monkey puzzle", "Araucariaceae" },
  { "Buddhist pine", "Podocarpaceae" },
  { "Coconut palm", "Arecaceae" },
  { "Sugar cane", "Poaceae" },
  { "Papyrus sedge", "Cyperaceae" },
  { "Common rush", "Juncaceae" },
  { "Broadleaf cattail", "Typhaceae" },
  { "Pineapple", "Bromeliaceae" },
  { "Banana", "Musaceae" },
  { "Bird of paradise", "Strelitziaceae" },
  { "Ginger", "Zingiberaceae" },
  { "Prayer plant", "Marantaceae" },
  { "Canna lily", "Cannaceae" },
  { "Spiderwort", "Commelinaceae" },
  { "Water hyacinth", "Pontederiaceae" },
  { "Vanilla orchid", "Orchidaceae" },
  { "Bearded iris", "Iridaceae" },
  { "Daffodil", "Amaryllidaceae" },
  { "Garden asparagus", "Asparagaceae" },
  { "Aloe vera", "Asphodelaceae" },
  { "Madonna lily", "Liliaceae" },
  { "Autumn crocus", "Colchicaceae" },
  { "White trillium", "Melanthiaceae" },
  { "Purple yam", "Dioscoreaceae" },
  { "Swiss cheese plant", "Araceae" },
  { "Water plantain", "Alismataceae" },
  { "White water lily", "Nymphaeaceae" },
  { "Sacred lotus", "Nelumbonaceae" },
  { "Bay laurel", "Lauraceae" },
  { "Black pepper", "Piperaceae" },
  { "Wild ginger", "Aristolochiaceae" },
  { "Soursop", "Annonaceae" },
  { "Nutmeg", "Myristicaceae" },
  { "Carolina allspice", "Calycanthaceae" },
  { "Star anise", "Schisandraceae" },
  { "Opium poppy", "Papaveraceae" },
  { "Meadow buttercup", "Ranunculaceae" },
  { "Japanese barberry", "Berberidaceae" },
  { "London plane", "Platanaceae" },
  { "King protea", "Proteaceae" },
  { "Common boxwood", "Buxaceae" },
  { "Garden peony", "Paeoniaceae" },
  { "Witch hazel", "Hamamelidaceae" },
  { "Blackcurrant", "Grossulariaceae" },
  { "Coral bells", "Saxifragaceae" },
  { "Jade plant", "Crassulaceae" },
  { "Wine grape", "Vitaceae" },
  { "Garden pea", "Fabaceae" },
  { "Milkwort", "Polygalaceae" },
  { "Dog rose", "Rosaceae" },
  { "Sea buckthorn", "Elaeagnaceae" },
  { "Common buckthorn", "Rhamnaceae" },
  { "Stinging nettle", "Urticaceae" },
  { "Common fig", "Moraceae" },
  { "Common hop", "Cannabaceae" },
  { "Sweet gale", "Myricaceae" },
  { "Pumpkin", "Cucurbitaceae" },
  { "Wax begonia", "Begoniaceae" },
  { "Spindle tree", "Celastraceae" },
  { "Wood sorrel", "Oxalidaceae" },
  { "Sweet violet", "Violaceae" },
  { "Passion flower", "Passifloraceae" },
  { "Poinsettia", "Euphorbiaceae" },
  { "Common flax", "Linaceae" },
  { "Mangosteen", "Clusiaceae" },
  { "Cranesbill", "Geraniaceae" },
  { "Evening primrose", "Onagraceae" },
  { "Blue gum", "Myrtaceae" },
  { "Pomegranate", "Lythraceae" },
  { "Sweet orange", "Rutaceae" },
  { "Mango", "Anacardiaceae" },
  { "Mahogany", "Meliaceae" },
  { "Cotton", "Malvaceae" },
  { "Frankincense", "Burseraceae" },
  { "Rock rose", "Cistaceae" },
  { "Garden nasturtium", "Tropaeolaceae" },
  { "Papaya", "Caricaceae" },
  { "Wild cabbage", "Brassicaceae" },
  { "Venus flytrap", "Droseraceae" },
  { "Rhubarb", "Polygonaceae" },
  { "Carnation", "Caryophyllaceae" },
  { "Quinoa", "Amaranthaceae" },
  { "Prickly pear", "Cactaceae" },
  { "Flowering dogwood", "Cornaceae" },
  { "Highbush blueberry", "Ericaceae" },
  { "Common sunflower", "Asteraceae" },
}

local counter
local step
local is_random
local stored_plants
local create_head
local read_head
local read_tail
local body_parts = {}

function init(args)
  step = tonumber(args[1])
  counter = tonumber(args[2]) + thread_index
  is_random = args[3] == "random"
  stored_plants = tonumber(args[4])
  -- The same for each program, and another for each thread and for the warm-up.
  math.randomseed(counter)
  local headers = headers()
  create_head = "POST /plants" .. headers .. "Content-Type: application/json\r\nContent-Length: "
  read_head = "GET /plants"
  read_tail = headers .. "\r\n"
  for index, plant in ipairs(plants) do
    body_parts[index - 1] = {
      ',"name":"' .. plant[1] .. " ",
      '","tag":"' .. plant[2] .. '"}',
    }
  end
end

local function create_request()
  local id = is_random and scattered(counter) or counter
  counter = counter + step
  local digits = digits_of(id)
  local parts = body_parts[id % #plants]
  local body = '{"id":' .. digits .. parts[1] .. digits .. parts[2]
  return create_head .. #body .. "\r\n\r\n" .. body
end

local function read_request(target)
  return read_head .. target .. read_tail
end

-- The id of any of the plants that the store had before the load.
local function any_stored_digits()
  return digits_of(scattered(math.random(stored_plants)))
end
