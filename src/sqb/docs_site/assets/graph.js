// The graph: drawn with cytoscape, coloured by state, shaped by kind. What is chosen is in the address, so that it can
// be sent to others: #node=NAME, #column=NAME::COLUMN, #select=SELECTOR.
(function () {
  var data = window.SQB_GRAPH;
  var graph = new SqbSelectors.Graph(data);
  var area = document.getElementById("graph");
  var tip = document.getElementById("graph-tip");
  var panel = document.getElementById("graph-panel");
  var message = document.getElementById("selector-message");
  var include = document.getElementById("selector");
  var exclude = document.getElementById("exclude");
  var MANY = 400;
  var SHAPES = {
    model: "round-rectangle", seed: "cut-rectangle", source: "barrel", dbt: "hexagon", exposure: "ellipse",
  };
  // Kinds whose tables a build changes in part.
  var CHANGED_IN_PART = ["append", "merge", "scd2", "tracked", "incremental"];
  var chosen = null;
  var cy = cytoscape({
    container: area, elements: [], style: [], minZoom: 0.02, maxZoom: 2.5, wheelSensitivity: 0.3,
    boxSelectionEnabled: false, autoungrabify: true, hideEdgesOnViewport: data.nodes.length > MANY,
    textureOnViewport: data.nodes.length > MANY, pixelRatio: data.nodes.length > MANY ? 1 : "auto",
  });

  function short(name) { return name.slice(name.lastIndexOf(".") + 1); }
  function cut(text, most) { return text.length > most ? text.slice(0, most - 1) + "…" : text; }
  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function paint() {
    var many = drawn.size > MANY;
    var style = [
      { selector: "node", style: {
        shape: "data(shape)", width: SqbLayout.width, height: SqbLayout.height, label: "data(label)",
        "text-valign": "center", "text-halign": "center", "text-wrap": "wrap", "text-max-width": SqbLayout.width, "line-height": 1.25,
        "font-size": 13, "font-family": "system-ui, sans-serif", color: css("--text"), "border-width": 2,
        "min-zoomed-font-size": 5, "overlay-opacity": 0,
      } },
      { selector: "node.view", style: { "border-style": "dashed" } },
      { selector: "node.partial", style: { "border-style": "double", "border-width": 5 } },
      { selector: "edge", style: {
        width: 1.5, "line-color": css("--edge"), "curve-style": many ? "haystack" : "straight",
        "source-endpoint": "90deg", "target-endpoint": "270deg",
        "target-arrow-shape": "triangle", "target-arrow-color": css("--edge"), "arrow-scale": 0.8, "overlay-opacity": 0,
      } },
      { selector: "edge.bent", style: {
        "curve-style": "round-segments", "edge-distances": "endpoints", "segment-radii": 14,
        "segment-weights": function (edge) { return edge.data("weights"); },
        "segment-distances": function (edge) { return edge.data("distances"); },
      } },
      { selector: "node.faded", style: { opacity: 0.18 } },
      { selector: "edge.faded", style: { opacity: 0.08 } },
      { selector: "edge.way", style: { width: 2.5, "line-color": css("--accent"), "target-arrow-color": css("--accent"), "z-index": 9 } },
      { selector: "node.chosen", style: { "border-width": 4, "font-weight": "bold" } },
      { selector: "node.column", style: { height: 46 } },
    ];
    ["current", "stale", "failed", "blocked", "new", "unknown"].forEach(function (state) {
      style.push({ selector: "node." + state, style: {
        "background-color": css("--" + state + "-soft"), "border-color": css("--" + state),
      } });
    });
    cy.style(style);
  }

  var drawn = new Set(), isLabelled = false;

  // Draws nodes, some with labels of their own. Labels of nodes that are drawn already are not changed: cytoscape would
  // go on with the size of the old ones.
  function draw(names, labels) {
    drawn = names;
    isLabelled = Boolean(labels);
    var shown = data.nodes.filter(function (node) { return names.has(node.name); });
    var edges = [];
    shown.forEach(function (node) {
      new Set(node.upstream).forEach(function (above) {
        if (names.has(above) && graph.byName.has(above) && above !== node.name) edges.push([above, node.name]);
      });
    });
    var layout = SqbLayout.layOut(shown.map(function (node) { return node.name; }), edges), places = layout.places;
    var elements = shown.map(function (node) {
      return {
        group: "nodes", position: places.get(node.name), data: { id: node.name, label: (labels && labels.get(node.name)) || cut(short(node.name), 23), shape: SHAPES[node.type] || "octagon" },
        classes: node.state + (node.kind === "view" ? " view" : CHANGED_IN_PART.includes(node.kind) ? " partial" : "") + (labels && labels.has(node.name) ? " column" : ""),
      };
    });
    edges.forEach(function (edge) {
      var id = edge[0] + "\u0000" + edge[1], corners = layout.ways.get(id);
      var bend = corners ? bendThrough(places.get(edge[0]), places.get(edge[1]), corners) : {};
      elements.push({
        group: "edges", data: Object.assign({ id: id, source: edge[0], target: edge[1] }, bend), classes: corners ? "bent" : "",
      });
    });
    // Styles first: cytoscape works out those of every element when it is added, and again when styles change.
    cy.elements().remove();
    paint();
    cy.add(elements);
    fit();
  }

  // Corners as cytoscape takes them: how far along the line between both ends, and how far beside it.
  function bendThrough(source, target, corners) {
    var from = { x: source.x + SqbLayout.width / 2, y: source.y }, to = { x: target.x - SqbLayout.width / 2, y: target.y };
    var dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1;
    return {
      weights: corners.map(function (at) { return ((at.x - from.x) * dx + (at.y - from.y) * dy) / (length * length); }),
      distances: corners.map(function (at) { return ((at.y - from.y) * dx - (at.x - from.x) * dy) / length; }),
    };
  }

  // The places of nodes are known: cytoscape would measure every label to know how far they reach.
  function fit(elements) {
    cy.resize();
    var nodes = (elements && elements.length ? elements : cy).nodes(), width = cy.width(), height = cy.height();
    if (!nodes.length || !width || !height) return;
    var box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
    nodes.forEach(function (node) {
      var at = node.position();
      box.left = Math.min(box.left, at.x); box.right = Math.max(box.right, at.x);
      box.top = Math.min(box.top, at.y); box.bottom = Math.max(box.bottom, at.y);
    });
    var wide = box.right - box.left + SqbLayout.width + 10, high = box.bottom - box.top + SqbLayout.height + 20;
    var zoom = Math.max(cy.minZoom(), Math.min(1.1, (width - 60) / wide, (height - 60) / high));
    cy.viewport({ zoom: zoom, pan: { x: width / 2 - zoom * (box.left + box.right) / 2, y: height / 2 - zoom * (box.top + box.bottom) / 2 } });
  }

  // --- what is chosen ----------------------------------------------------------------------------------------------

  function clear() {
    chosen = null;
    panel.hidden = true;
    cy.resize();
    if (isLabelled) {
      var view = { zoom: cy.zoom(), pan: cy.pan() };
      draw(drawn);
      cy.viewport(view);
    }
    cy.elements().removeClass("faded way chosen");
  }

  function light(names, edges) {
    cy.batch(function () {
      cy.nodes().forEach(function (node) { node.toggleClass("faded", !names.has(node.id())); });
      cy.edges().forEach(function (edge) {
        var isWay = edges.has(edge.id());
        edge.toggleClass("way", isWay);
        edge.toggleClass("faded", !isWay);
      });
    });
  }

  function chooseNode(name) {
    if (!graph.byName.has(name)) return;
    if (!cy.getElementById(name).length) { include.value = exclude.value = ""; draw(new Set(graph.byName.keys())); }
    clear();
    chosen = name;
    var above = graph.reach([name], graph.up, Infinity), below = graph.reach([name], graph.down, Infinity);
    var names = new Set([name, ...above, ...below]), edges = new Set();
    cy.edges().forEach(function (edge) {
      var from = edge.source().id(), to = edge.target().id();
      var isAbove = (above.has(from) && (above.has(to) || to === name));
      var isBelow = (below.has(to) && (below.has(from) || from === name));
      if (isAbove || isBelow) edges.add(edge.id());
    });
    light(names, edges);
    cy.getElementById(name).addClass("chosen");
    showPanel(name, above.size, below.size, null);
    setAddress("node=" + encodeURIComponent(name));
    keepInView(name);
  }

  function keepInView(name) {
    var node = cy.getElementById(name), box = node.renderedBoundingBox();
    if (box.x1 < 0 || box.y1 < 0 || box.x2 > cy.width() || box.y2 > cy.height()) cy.center(node);
  }

  function chooseColumn(name, column) {
    SqbLineage.load(function () {
      if (!graph.byName.has(name)) return;
      if (!cy.getElementById(name).length) draw(new Set(graph.byName.keys()));
      clear();
      chosen = name;
      var way = SqbLineage.trace(name, column);
      var labels = new Map();
      way.columns.forEach(function (columns, node) {
        labels.set(node, cut(short(node), 23) + "\n" + cut(Array.from(columns).join(", "), 25));
      });
      draw(drawn, labels);
      light(new Set(way.columns.keys()), way.edges);
      cy.getElementById(name).addClass("chosen");
      showPanel(name, 0, 0, { column: column, way: way });
      setAddress("column=" + encodeURIComponent(name) + "::" + encodeURIComponent(column));
      fit(cy.nodes().filter(function (node) { return way.columns.has(node.id()); }));
    });
  }

  function setAddress(text) { history.replaceState(null, "", "#" + text); }

  // --- the panel ---------------------------------------------------------------------------------------------------

  function element(tag, text, attributes) {
    var made = document.createElement(tag);
    if (text) made.textContent = text;
    Object.entries(attributes || {}).forEach(function (pair) { made.setAttribute(pair[0], pair[1]); });
    return made;
  }

  var WORDS = { "new": "never built" };
  function stateWord(node) { return WORDS[node.state] || node.state; }

  function showPanel(name, above, below, traced) {
    var node = graph.byName.get(name);
    var close = element("button", "×", { type: "button", "aria-label": "Close", class: "close" });
    close.addEventListener("click", reset);
    var title = element("h2", "");
    title.append(element("a", name, { href: node.page }));
    var chips = element("p", "", { class: "chips" });
    chips.append(element("span", stateWord(node), { class: "state state-" + node.state }));
    chips.append(element("span", node.type === "model" ? node.kind : node.type, { class: "kind" }));
    panel.replaceChildren(close, title, chips);
    if (node.reason) panel.append(element("p", node.reason, { class: "note" }));
    if (node.description) panel.append(element("p", node.description));
    if (traced) {
      var nodes = traced.way.columns.size;
      panel.append(element("p", "Lineage of " + traced.column + ": " + nodes + (nodes === 1 ? " node" : " nodes"), { class: "note", role: "status" }));
      var back = element("button", "The whole node", { type: "button" });
      back.addEventListener("click", function () { chooseNode(name); });
      panel.append(back);
    } else {
      panel.append(element("p", above + " above, " + below + " below", { class: "note" }));
    }
    if (node.columns.length) {
      panel.append(element("h3", "Columns"));
      var list = element("ul", "", { class: "column-list" });
      node.columns.forEach(function (column) {
        var item = element("li", ""), button = element("button", column, { type: "button", "aria-label": "Lineage of " + column });
        if (traced && traced.column === column) button.setAttribute("aria-pressed", "true");
        button.addEventListener("click", function () { chooseColumn(name, column); });
        item.append(button);
        list.append(item);
      });
      panel.append(list);
    }
    panel.append(element("a", "Open its page", { href: node.page, class: "button" }));
    panel.hidden = false;
    cy.resize();
  }

  // --- filters, keys, the mouse ------------------------------------------------------------------------------------

  function apply(keepAddress) {
    var result = SqbSelectors.select(graph, include.value, exclude.value);
    include.setAttribute("aria-invalid", String(Boolean(result.problem)));
    if (result.problem) {
      message.textContent = result.problem;
      return;
    }
    clear();
    draw(result.names);
    message.textContent = result.names.size + " of " + data.nodes.length;
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

  function showTip(event) {
    var node = graph.byName.get(event.target.id());
    tip.replaceChildren(element("b", node.name), element("span", stateWord(node), { class: "state state-" + node.state }), element("br", ""), document.createTextNode(node.reason));
    tip.hidden = false;
    var at = event.renderedPosition || event.target.renderedPosition();
    tip.style.left = Math.max(4, Math.min(at.x + 14, area.clientWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(at.y + 14, area.clientHeight - tip.offsetHeight - 8)) + "px";
  }

  function move(key) {
    if (!chosen) return chooseNode(cy.nodes().length ? cy.nodes()[0].id() : "");
    var step = { ArrowLeft: graph.up, ArrowRight: graph.down }[key];
    if (step) {
      var next = (step.get(chosen) || []).filter(function (name) { return cy.getElementById(name).length; })[0];
      if (next) chooseNode(next);
    } else {
      var here = cy.getElementById(chosen).position();
      var others = cy.nodes().filter(function (node) {
        var at = node.position();
        return node.id() !== chosen && Math.abs(at.x - here.x) < 90 && (key === "ArrowDown" ? at.y > here.y : at.y < here.y);
      }).sort(function (a, b) { return Math.abs(a.position().y - here.y) - Math.abs(b.position().y - here.y); });
      if (others.length) chooseNode(others[0].id());
    }
  }

  var timer;
  [include, exclude].forEach(function (field) {
    field.addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(apply, 250); });
  });
  document.getElementById("graph-bar").addEventListener("submit", function (event) { event.preventDefault(); apply(); });
  document.getElementById("fit").addEventListener("click", function () { fit(); });
  document.getElementById("reset").addEventListener("click", reset);
  document.getElementById("zoom-in").addEventListener("click", function () { zoom(1.4); });
  document.getElementById("zoom-out").addEventListener("click", function () { zoom(1 / 1.4); });
  function zoom(factor) {
    cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }
  document.querySelectorAll(".count").forEach(function (button) {
    button.addEventListener("click", function () {
      include.value = "state:" + button.dataset.state;
      apply();
    });
  });
  area.addEventListener("keydown", function (event) {
    if (event.key.startsWith("Arrow")) { event.preventDefault(); move(event.key); }
    else if (event.key === "Enter" && chosen) location.href = graph.byName.get(chosen).page;
    else if (event.key === "Escape") reset();
    else if (event.key === "f" || event.key === "F") fit();
    else if (event.key === "+") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
  });
  cy.on("tap", "node", function (event) { chooseNode(event.target.id()); });
  cy.on("dbltap", "node", function (event) { location.href = graph.byName.get(event.target.id()).page; });
  cy.on("tap", function (event) { if (event.target === cy) { clear(); setAddress(""); } });
  cy.on("mouseover", "node", showTip);
  cy.on("mouseout drag pan zoom", function () { tip.hidden = true; });
  document.addEventListener("sqb-theme", paint);
  addEventListener("resize", function () { cy.resize(); });

  function readAddress() {
    var text = location.hash.slice(1), split = text.indexOf("=");
    var key = text.slice(0, split), value = text.slice(split + 1);
    if (key === "node") {
      chooseNode(decodeURIComponent(value));
      fit();
    }
    else if (key === "column") {
      var parts = value.split("::");
      chooseColumn(decodeURIComponent(parts[0]), decodeURIComponent(parts[1] || ""));
    } else if (key === "select") {
      var words = decodeURIComponent(value).split(" -- ");
      include.value = words[0];
      exclude.value = words[1] || "";
      apply(true);
    }
  }

  apply(true);
  readAddress();
  addEventListener("hashchange", readAddress);
  // For tests, and for those who look around in the console.
  window.SqbGraph = { cy: cy, graph: graph, chooseNode: chooseNode, chooseColumn: chooseColumn, fit: fit, readyAt: performance.now() };
  document.body.dataset.ready = "graph";
  // A frame after the first that cytoscape draws: what is seen, and not only computed.
  requestAnimationFrame(function () {
    requestAnimationFrame(function () { window.SqbGraph.shownAt = performance.now(); });
  });
})();
