// Where nodes are drawn: layers from left to right. dagre lays out what a person can read at once; for more, which it
// takes seconds for, a plain pass of the same method (longest paths, then orders by the middle of neighbours) is enough.
window.SqbLayout = (function () {
  var WIDTH = 190, HEIGHT = 44, GAP_X = 76, GAP_Y = 14;
  var MOST_FOR_DAGRE = 400;

  var MOST_STRETCHED = 5;

  // The places of nodes by name, and the corners of edges that pass other layers by both of their ends. Layers stand
  // further apart where that fills an area of this width by height better.
  function layOut(names, edges, aspect) {
    return names.length <= MOST_FOR_DAGRE ? withDagre(names, edges, aspect) : { places: byLayers(names, edges, aspect), ways: new Map() };
  }

  function stretch(points, aspect) {
    var xs = points.map(function (at) { return at.x; }), ys = points.map(function (at) { return at.y; });
    if (!points.length || !aspect) return 1;
    var wide = Math.max.apply(null, xs) - Math.min.apply(null, xs), high = Math.max.apply(null, ys) - Math.min.apply(null, ys);
    return wide ? Math.min(MOST_STRETCHED, Math.max(1, high * aspect / wide)) : 1;
  }

  function withDagre(names, edges, aspect) {
    var graph = new dagre.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: GAP_Y, ranksep: GAP_X, ranker: "tight-tree" });
    graph.setDefaultEdgeLabel(function () { return {}; });
    names.forEach(function (name) { graph.setNode(name, { width: WIDTH, height: HEIGHT }); });
    edges.forEach(function (edge) { graph.setEdge(edge[0], edge[1]); });
    dagre.layout(graph);
    var factor = stretch(names.map(function (name) { return graph.node(name); }), aspect);
    function widen(at) { return { x: at.x * factor, y: at.y }; }
    var places = new Map(names.map(function (name) { return [name, widen(graph.node(name))]; }));
    var layers = new Set(Array.from(places.values(), function (at) { return Math.round(at.x); }));
    var ways = new Map();
    edges.forEach(function (edge) {
      var corners = findCorners(graph.edge(edge[0], edge[1]).points.map(widen), layers);
      if (corners.length) ways.set(edge[0] + "\u0000" + edge[1], corners);
    });
    return { places: places, ways: ways };
  }

  // dagre keeps a place free in every layer that an edge passes: there it runs straight on, beside the nodes.
  function findCorners(points, layers) {
    var corners = [];
    points.slice(1, -1).forEach(function (point) {
      if (!layers.has(Math.round(point.x))) return;
      corners.push({ x: point.x - WIDTH / 2, y: point.y }, { x: point.x + WIDTH / 2, y: point.y });
    });
    return corners;
  }

  function byLayers(names, edges, aspect) {
    var up = new Map(), down = new Map();
    names.forEach(function (name) { up.set(name, []); down.set(name, []); });
    edges.forEach(function (edge) { down.get(edge[0]).push(edge[1]); up.get(edge[1]).push(edge[0]); });
    var layers = makeLayers(names, up, down);
    for (var sweep = 0; sweep < 6; sweep++) order(layers, sweep % 2 ? down : up, sweep % 2 === 1);
    var tallest = Math.max.apply(null, layers.map(function (layer) { return layer.length; }));
    var positions = new Map();
    layers.forEach(function (layer, x) {
      var step = (HEIGHT + GAP_Y) * Math.min(3, Math.max(1, tallest / layer.length));
      var top = -step * (layer.length - 1) / 2;
      layer.forEach(function (name, y) { positions.set(name, { x: x * (WIDTH + GAP_X * 2), y: top + y * step }); });
    });
    var factor = stretch(Array.from(positions.values()), aspect);
    positions.forEach(function (at) { at.x *= factor; });
    return positions;
  }

  // Each node one layer after the last of those that it reads; what reads nothing stands beside its first reader.
  function makeLayers(names, up, down) {
    var rank = new Map(), left = new Map(), ready = [];
    names.forEach(function (name) {
      left.set(name, up.get(name).length);
      if (!left.get(name)) { rank.set(name, 0); ready.push(name); }
    });
    for (var i = 0; i < ready.length; i++) {
      down.get(ready[i]).forEach(function (below) {
        rank.set(below, Math.max(rank.get(below) || 0, rank.get(ready[i]) + 1));
        left.set(below, left.get(below) - 1);
        if (!left.get(below)) ready.push(below);
      });
    }
    var layers = [];
    names.forEach(function (name) {
      var at = rank.get(name) || 0;
      if (!up.get(name).length && down.get(name).length) {
        at = Math.min.apply(null, down.get(name).map(function (below) { return rank.get(below) || 0; })) - 1;
      }
      at = Math.max(0, at);
      (layers[at] = layers[at] || []).push(name);
    });
    return layers.filter(Boolean);
  }

  function order(layers, neighbours, backwards) {
    var place = new Map();
    layers.forEach(function (layer) {
      layer.forEach(function (name, index) { place.set(name, index / layer.length); });
    });
    (backwards ? layers.slice().reverse() : layers).forEach(function (layer) {
      var middle = new Map(layer.map(function (name) {
        var others = neighbours.get(name);
        if (!others.length) return [name, place.get(name)];
        return [name, others.reduce(function (sum, other) { return sum + place.get(other); }, 0) / others.length];
      }));
      layer.sort(function (a, b) { return middle.get(a) - middle.get(b); });
      layer.forEach(function (name, index) { place.set(name, index / layer.length); });
    });
  }

  return { layOut: layOut, width: WIDTH, height: HEIGHT };
})();
