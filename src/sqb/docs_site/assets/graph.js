// The graph: coloured by state, shaped by kind. What is chosen is in the address, so that it can be sent to others:
// #node=NAME, #column=NAME::COLUMN, #select=SELECTOR.
(function () {
  var data = window.SQB_GRAPH;
  var graph = new SqbSelectors.Graph(data);
  var area = document.getElementById("graph");
  var tip = document.getElementById("graph-tip");
  var panel = document.getElementById("graph-panel");
  var message = document.getElementById("selector-message");
  var include = document.getElementById("selector");
  var exclude = document.getElementById("exclude");
  // Of a larger graph, a link to a node shows what is near it, in letters that can be read.
  var MOST_IN_SIGHT = 60;
  var chosen = null, isLabelled = false;
  var view = new SqbCanvas.Canvas(area, {
    click: function (name) {
      if (name) return chooseNode(name);
      clear();
      setAddress("");
    },
    open: open,
    point: function (name, at) {
      tip.hidden = !name;
      if (name) SqbPanel.showTip(tip, graph.byName.get(name), at, area);
    },
    move: function () { tip.hidden = true; },
  });

  function short(name) { return name.slice(name.lastIndexOf(".") + 1); }
  function folderOf(name) { return name.slice(0, Math.max(0, name.lastIndexOf("."))); }
  function open(name) { location.href = graph.byName.get(name).page; }
  function isShown(name) { return view.byName.has(name); }

  // Draws nodes and the edges between them; the columns of a way stand below the names.
  function draw(names) {
    var shown = data.nodes.filter(function (node) { return names.has(node.name); }), edges = [];
    shown.forEach(function (node) {
      new Set(node.upstream).forEach(function (above) {
        if (names.has(above) && graph.byName.has(above) && above !== node.name) edges.push([above, node.name]);
      });
    });
    var layout = SqbLayout.layOut(shown.map(function (node) { return node.name; }), edges, view.width / Math.max(1, view.height));
    view.show(shown.map(function (node) {
      var at = layout.places.get(node.name);
      return {
        name: node.name, state: node.state, shape: SqbShapes.of(node), border: SqbShapes.borderOf(node), x: at.x, y: at.y,
        label: short(node.name), detail: describe(node), isColumn: false,
      };
    }), edges.map(function (edge) {
      return place(edge, layout.places, layout.ways.get(edge[0] + "\u0000" + edge[1]) || []);
    }));
    isLabelled = false;
    view.fit();
  }

  function describe(node) {
    return [SqbPanel.kindWord(node), folderOf(node.name)].filter(Boolean).join(" · ");
  }

  // An edge from the right of one node to the left of another, by way of its corners.
  function place(edge, places, corners) {
    var from = places.get(edge[0]), to = places.get(edge[1]), half = SqbLayout.width / 2;
    var points = [{ x: from.x + half, y: from.y }].concat(corners, [{ x: to.x - half, y: to.y }]);
    var ys = points.map(function (point) { return point.y; });
    return {
      id: edge[0] + "\u0000" + edge[1], from: edge[0], to: edge[1], points: points, isWay: false,
      left: points[0].x, right: points[points.length - 1].x, top: Math.min.apply(null, ys) - 5, bottom: Math.max.apply(null, ys) + 5,
    };
  }

  // --- what is chosen ----------------------------------------------------------------------------------------------

  function clear() {
    chosen = null;
    panel.hidden = true;
    if (isLabelled) label(new Map());
    view.resize();
    view.light(null, null);
  }

  function label(columns) {
    isLabelled = columns.size > 0;
    view.nodes.forEach(function (node) {
      var names = columns.get(node.name);
      node.isColumn = Boolean(names);
      node.detail = names ? Array.from(names).join(", ") : describe(graph.byName.get(node.name));
      node.shownDetail = undefined;
    });
  }

  function showAll() {
    include.value = exclude.value = "";
    apply(true);
  }

  function chooseNode(name) {
    if (!graph.byName.has(name)) return;
    if (!isShown(name)) showAll();
    clear();
    chosen = name;
    var above = graph.reach([name], graph.up, Infinity), below = graph.reach([name], graph.down, Infinity), edges = new Set();
    view.edges.forEach(function (edge) {
      var isAbove = above.has(edge.from) && (above.has(edge.to) || edge.to === name);
      var isBelow = below.has(edge.to) && (below.has(edge.from) || edge.from === name);
      if (isAbove || isBelow) edges.add(edge.id);
    });
    showPanel(name, { above: above.size, below: below.size }, null);
    view.light(new Set([name, ...above, ...below]), edges, name);
    setAddress("node=" + encodeURIComponent(name));
    view.keepInView(name);
  }

  function chooseColumn(name, column) {
    SqbLineage.load(function () {
      if (!graph.byName.has(name)) return;
      if (!isShown(name)) showAll();
      clear();
      chosen = name;
      var way = SqbLineage.trace(name, column);
      label(way.columns);
      showPanel(name, null, { column: column, way: way });
      view.light(new Set(way.columns.keys()), way.edges, name);
      setAddress("column=" + encodeURIComponent(name) + "::" + encodeURIComponent(column));
      view.fit(view.nodes.filter(function (node) { return way.columns.has(node.name); }));
    });
  }

  // What is above and below a node, or as many steps of it as are still readable.
  function focusOn(name) {
    var steps = ["", "3", "2", "1"].find(function (depth, index) {
      var near = Number(depth) || Infinity;
      var size = graph.reach([name], graph.up, near).size + graph.reach([name], graph.down, near).size;
      return size < MOST_IN_SIGHT || index === 3;
    });
    include.value = steps + "+" + name + "+" + steps;
    exclude.value = "";
    apply(true);
    showChosen(name);
  }

  // In a narrow window, names are worth more than seeing everything.
  function showChosen(name) {
    chooseNode(name);
    view.fit();
    var node = view.byName.get(name);
    if (node && view.zoom < SqbCanvas.READABLE) view.look(SqbCanvas.READABLE, node.x, node.y);
  }

  function setAddress(text) { history.replaceState(null, "", "#" + text); }

  function showPanel(name, reach, traced) {
    // The button that was pressed is made anew.
    var hadFocus = panel.contains(document.activeElement);
    SqbPanel.show(panel, graph.byName.get(name), reach, traced, {
      close: function () { clear(); setAddress(""); area.focus(); },
      whole: function () { chooseNode(name); },
      only: function () { focusOn(name); },
      column: function (column) { chooseColumn(name, column); },
    });
    if (hadFocus) (panel.querySelector("[aria-pressed=true]") || panel.querySelector("button")).focus();
    view.resize();
  }

  // --- filters, keys -----------------------------------------------------------------------------------------------

  function apply(keepAddress) {
    var result = SqbSelectors.select(graph, include.value, exclude.value);
    include.setAttribute("aria-invalid", String(Boolean(result.problem)));
    if (result.problem) {
      message.textContent = result.problem;
      return;
    }
    clear();
    draw(result.names);
    message.textContent = result.names.size.toLocaleString("en") + " of " + data.nodes.length.toLocaleString("en");
    if (keepAddress) return;
    var words = include.value.trim();
    if (exclude.value.trim()) words += " -- " + exclude.value.trim();
    setAddress(words ? "select=" + encodeURIComponent(words) : "");
  }

  function reset() {
    include.value = exclude.value = "";
    apply();
    area.focus();
  }

  function move(key) {
    if (!chosen) return chooseNode(view.nodes.length ? view.nodes[0].name : "");
    var step = { ArrowLeft: graph.up, ArrowRight: graph.down }[key];
    if (step) {
      var next = (step.get(chosen) || []).find(isShown);
      if (next) chooseNode(next);
      return;
    }
    var here = view.byName.get(chosen);
    var others = view.nodes.filter(function (node) {
      return node !== here && Math.abs(node.x - here.x) < SqbLayout.width / 2 && (key === "ArrowDown" ? node.y > here.y : node.y < here.y);
    }).sort(function (a, b) { return Math.abs(a.y - here.y) - Math.abs(b.y - here.y); });
    if (others.length) chooseNode(others[0].name);
  }

  var timer;
  [include, exclude].forEach(function (field) {
    field.addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(apply, 250); });
  });
  include.addEventListener("focus", suggest, { once: true });
  document.getElementById("graph-bar").addEventListener("submit", function (event) { event.preventDefault(); apply(); });
  document.getElementById("fit").addEventListener("click", function () { view.fit(); });
  document.getElementById("reset").addEventListener("click", reset);
  document.getElementById("zoom-in").addEventListener("click", function () { view.zoomBy(1.4); });
  document.getElementById("zoom-out").addEventListener("click", function () { view.zoomBy(1 / 1.4); });
  document.querySelectorAll(".count").forEach(function (button) {
    button.addEventListener("click", function () {
      include.value = "state:" + button.dataset.state;
      apply();
    });
  });
  area.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) { event.preventDefault(); move(event.key); }
    else if (event.key === "Enter" && chosen) open(chosen);
    else if (event.key === "Escape") reset();
    else if (event.key === "f" || event.key === "F") view.fit();
    else if (event.key === "+") view.zoomBy(1.4);
    else if (event.key === "-") view.zoomBy(1 / 1.4);
  });
  document.addEventListener("sqb-theme", function () { view.readColours(); });

  // Words for the filter that this project has.
  function suggest() {
    var words = new Set();
    document.querySelectorAll(".count").forEach(function (button) { words.add("state:" + button.dataset.state); });
    data.nodes.forEach(function (node) {
      node.tags.forEach(function (tag) { words.add("tag:" + tag); });
      if (node.file.includes("/")) words.add("path:" + node.file.slice(0, node.file.lastIndexOf("/")));
      if (node.owner) words.add("owner:" + node.owner);
    });
    data.nodes.slice(0, 500).forEach(function (node) { words.add("+" + short(node.name) + "+"); });
    var list = document.getElementById("selector-words");
    words.forEach(function (word) {
      if (/\s|,/.test(word)) return;
      var option = document.createElement("option");
      option.value = word;
      list.append(option);
    });
  }

  function decode(text) {
    try { return decodeURIComponent(text || ""); } catch (error) { return text; }
  }

  function readAddress() {
    var text = location.hash.slice(1), split = text.indexOf("=");
    var key = text.slice(0, split), value = text.slice(split + 1);
    if (key === "node") {
      var name = decode(value);
      if (data.nodes.length > MOST_IN_SIGHT && graph.byName.has(name)) return focusOn(name);
      showChosen(name);
    } else if (key === "column") {
      var parts = value.split("::");
      chooseColumn(decode(parts[0]), decode(parts[1]));
    } else if (key === "select") {
      var words = decode(value).split(" -- ");
      include.value = words[0];
      exclude.value = words[1] || "";
      apply(true);
    }
  }

  apply(true);
  readAddress();
  addEventListener("hashchange", readAddress);
  // For tests, and for those who look around in the console.
  window.SqbGraph = { view: view, graph: graph, chooseNode: chooseNode, chooseColumn: chooseColumn, readyAt: performance.now() };
  document.body.dataset.ready = "graph";
  // A frame after the first that is drawn: what is seen, and not only computed.
  requestAnimationFrame(function () {
    requestAnimationFrame(function () { window.SqbGraph.shownAt = performance.now(); });
  });
})();
