-- Load for `cargo xtask bench scale`: each request creates a plant that was never created before,
-- with an id anywhere in the range of ids.
--
-- Arguments: the first counter, and the file that gets the counters at which the threads ended.

local bit = require("bit")

-- Families with their genera. What comes first is created more often.
local families = {
  { "Asteraceae", "Helianthus Aster Achillea Cirsium Senecio Artemisia" },
  { "Orchidaceae", "Orchis Ophrys Dendrobium Cymbidium Epipactis" },
  { "Fabaceae", "Trifolium Vicia Lathyrus Acacia Lupinus Genista" },
  { "Rosaceae", "Rosa Prunus Malus Pyrus Rubus Sorbus Potentilla" },
  { "Poaceae", "Poa Festuca Bromus Stipa Agrostis Avena" },
  { "Lamiaceae", "Salvia Mentha Thymus Lavandula Origanum Stachys" },
  { "Rubiaceae", "Galium Coffea Gardenia Rubia" },
  { "Euphorbiaceae", "Euphorbia Ricinus Croton Mercurialis" },
  { "Cyperaceae", "Carex Cyperus Scirpus Eriophorum" },
  { "Brassicaceae", "Brassica Arabis Draba Cardamine Alyssum" },
  { "Apiaceae", "Heracleum Angelica Eryngium Daucus Bupleurum" },
  { "Ericaceae", "Erica Rhododendron Vaccinium Arbutus" },
  { "Myrtaceae", "Eucalyptus Myrtus Syzygium Melaleuca" },
  { "Malvaceae", "Malva Hibiscus Tilia Gossypium" },
  { "Apocynaceae", "Vinca Nerium Asclepias Hoya" },
  { "Asparagaceae", "Asparagus Hyacinthus Agave Yucca Muscari" },
  { "Ranunculaceae", "Ranunculus Anemone Clematis Aconitum Delphinium" },
  { "Caryophyllaceae", "Dianthus Silene Stellaria Cerastium" },
  { "Plantaginaceae", "Plantago Veronica Antirrhinum Digitalis" },
  { "Amaranthaceae", "Amaranthus Chenopodium Beta Atriplex" },
  { "Solanaceae", "Solanum Nicotiana Capsicum Atropa" },
  { "Boraginaceae", "Borago Myosotis Echium Pulmonaria" },
  { "Araceae", "Arum Monstera Philodendron Anthurium" },
  { "Arecaceae", "Phoenix Cocos Washingtonia Chamaerops" },
  { "Cactaceae", "Opuntia Mammillaria Cereus Echinocactus" },
  { "Crassulaceae", "Sedum Crassula Sempervivum Echeveria" },
  { "Rutaceae", "Citrus Ruta Skimmia Zanthoxylum" },
  { "Polygonaceae", "Rumex Polygonum Rheum Persicaria" },
  { "Campanulaceae", "Campanula Lobelia Phyteuma Jasione" },
  { "Saxifragaceae", "Saxifraga Heuchera Astilbe Bergenia" },
  { "Amaryllidaceae", "Narcissus Allium Galanthus Amaryllis" },
  { "Iridaceae", "Iris Crocus Gladiolus Freesia" },
  { "Liliaceae", "Lilium Tulipa Fritillaria Gagea" },
  { "Primulaceae", "Primula Cyclamen Lysimachia Androsace" },
  { "Gentianaceae", "Gentiana Centaurium Swertia" },
  { "Orobanchaceae", "Orobanche Pedicularis Euphrasia Melampyrum" },
  { "Fagaceae", "Quercus Fagus Castanea Lithocarpus" },
  { "Pinaceae", "Pinus Abies Picea Larix Cedrus" },
  { "Cupressaceae", "Cupressus Juniperus Thuja Taxodium" },
  { "Betulaceae", "Betula Alnus Carpinus Corylus" },
  { "Salicaceae", "Salix Populus Flacourtia" },
  { "Sapindaceae", "Acer Aesculus Litchi Sapindus" },
  { "Oleaceae", "Olea Fraxinus Syringa Jasminum Ligustrum" },
  { "Caprifoliaceae", "Lonicera Valeriana Scabiosa Knautia" },
  { "Viburnaceae", "Viburnum Sambucus Adoxa" },
  { "Geraniaceae", "Geranium Pelargonium Erodium" },
  { "Violaceae", "Viola Rinorea Hybanthus" },
  { "Papaveraceae", "Papaver Chelidonium Corydalis Fumaria" },
  { "Cucurbitaceae", "Cucurbita Cucumis Bryonia Citrullus" },
  { "Convolvulaceae", "Convolvulus Ipomoea Calystegia Cuscuta" },
  { "Bromeliaceae", "Ananas Tillandsia Guzmania Bromelia" },
  { "Proteaceae", "Protea Banksia Grevillea Hakea" },
  { "Lauraceae", "Laurus Persea Cinnamomum Lindera" },
  { "Magnoliaceae", "Magnolia Liriodendron" },
  { "Moraceae", "Morus Ficus Artocarpus Maclura" },
  { "Urticaceae", "Urtica Parietaria Pilea Boehmeria" },
  { "Onagraceae", "Oenothera Epilobium Fuchsia Circaea" },
  { "Hypericaceae", "Hypericum Cratoxylum Vismia" },
  { "Linaceae", "Linum Reinwardtia" },
  { "Vitaceae", "Vitis Parthenocissus Cissus" },
  { "Rhamnaceae", "Rhamnus Ziziphus Ceanothus Frangula" },
  { "Anacardiaceae", "Mangifera Rhus Pistacia Cotinus" },
  { "Ulmaceae", "Ulmus Zelkova" },
  { "Juglandaceae", "Juglans Carya Pterocarya" },
  { "Juncaceae", "Juncus Luzula" },
  { "Polypodiaceae", "Polypodium Platycerium Drynaria" },
  { "Dryopteridaceae", "Dryopteris Polystichum Cyrtomium" },
  { "Nymphaeaceae", "Nymphaea Nuphar Victoria" },
  { "Droseraceae", "Drosera Dionaea Aldrovanda" },
  { "Ginkgoaceae", "Ginkgo" },
}

local epithet_words = [[
  alba alpina alpestris altissima amara ambigua angulata angustifolia annua aquatica arborea
  argentea aristata arvensis aspera aurea australis autumnalis azurea barbata bicolor biflora borealis
  bulbosa caerulea campestris canadensis candida canescens canina capensis carnea caucasica
  chinensis ciliata cinerea coccinea collina communis coronaria crispa cristata debilis decora
  densiflora discolor diversifolia dubia dulcis elata elegans elongata ensifolia erecta esculenta
  europaea excelsa farinosa ferruginea fistulosa flava flexuosa floribunda foetida formosa fragilis
  fragrans frutescens fulva gigantea glabra glauca glutinosa gracilis graeca grandiflora
  graveolens hastata helvetica herbacea heterophylla hirsuta hispida horizontalis humilis hybrida
  illyrica imbricata incana indica inermis inodora insignis integrifolia intermedia italica
  japonica laciniata lactea laevigata lanata lanceolata latifolia laxa littoralis longifolia
  lucida lutea macrantha macrophylla maculata magellanica major marginata maritima media
  micrantha microphylla minor mollis montana moschata multiflora muralis nana natans nemorosa
  nigra nitida nivalis nobilis nutans obtusa occidentalis odorata officinalis orientalis ovata
  palustris paniculata parviflora patens pendula perennis persica pilosa pinnata planifolia
  polymorpha praecox pratensis procera procumbens prostrata pubescens pulchella pulchra pumila
  punctata purpurea pusilla pyramidalis racemosa radicans ramosa recta recurva repens reptans
  reticulata rigida riparia rivularis robusta rosea rotundifolia rubra rugosa rupestris salicifolia
  sanguinea sativa saxatilis scabra scandens sempervirens serotina serrata sibirica silvatica
  speciosa spicata spinosa splendens squarrosa stellata striata stricta suaveolens tenuifolia
  tomentosa trifoliata tuberosa umbellata undulata uniflora urens variegata velutina
  verna verticillata villosa virens virginiana viridis viscosa vulgaris
]]

-- As gardens call them, before the name or not at all.
local adjectives = {
  "", "Dwarf ", "Giant ", "Common ", "Wild ", "Golden ", "Silver ", "Purple ",
  "White ", "Creeping ", "Weeping ", "Mountain ", "Swamp ", "Winter ", "Scented ", "Spotted ",
}

-- Another odd one than id_factor: it mixes what that left, so that an id says nothing about the name.
local name_factor = 0xD1342543DE82EF95ULL
local unit = 1 / 0x20000000000000

-- The next counter of the thread, and where that is written: done() reads both from outside.
counter = 0
counters_path = ""

local step
local head
local adjective_parts = {}
local genus_parts = {}
local epithet_parts = {}
-- Where the genera of each family begin, and how many it has.
local first_genera = {}
local genera_counts = {}

function init(args)
  step = tonumber(args[1])
  counter = tonumber(args[2]) + thread_index
  counters_path = args[3]
  head = "POST /plants" .. headers() .. "Content-Type: application/json\r\nContent-Length: "
  for index, adjective in ipairs(adjectives) do
    adjective_parts[index - 1] = ',"name":"' .. adjective
  end
  for epithet in epithet_words:gmatch("%a+") do
    epithet_parts[#epithet_parts + 1] = " " .. epithet .. '","tag":"'
  end
  for index, family in ipairs(families) do
    first_genera[index] = #genus_parts + 1
    for genus in family[2]:gmatch("%a+") do
      genus_parts[#genus_parts + 1] = genus
    end
    genera_counts[index] = #genus_parts + 1 - first_genera[index]
  end
end

function request()
  local product = id_factor * counter
  local digits = digits_of(scattered(counter))
  local mixed = bit.bxor(product, bit.rshift(product, 32)) * name_factor
  local chance = tonumber(bit.rshift(mixed, 11))
  counter = counter + step
  -- The square makes the first family the most common by far.
  local share = chance * unit
  local family = math.floor(share * share * #families) + 1
  local epithet = chance % #epithet_parts
  chance = math.floor(chance / #epithet_parts)
  local genus = first_genera[family] + chance % genera_counts[family]
  local adjective = math.floor(chance / genera_counts[family]) % #adjectives
  local body = '{"id":' .. digits .. adjective_parts[adjective] .. genus_parts[genus]
    .. epithet_parts[epithet + 1] .. families[family][1] .. '"}'
  return head .. #body .. "\r\n\r\n" .. body
end

local write_result = done

function done(summary, latency)
  local counters = {}
  for index, thread in ipairs(threads) do
    counters[index] = digits_of(thread:get("counter"))
  end
  local file = assert(io.open(threads[1]:get("counters_path"), "w"))
  file:write(table.concat(counters, " "))
  assert(file:close())
  write_result(summary, latency)
end
