// Draws nodes and edges on a canvas, and moves over them with the mouse, the wheel and fingers. What is drawn depends
// on how near one is: blocks of colour from afar, then names, then what stands below the names.
window.SqbCanvas = (function () {
  var WIDTH = SqbLayout.width, HEIGHT = SqbLayout.height;
  var LEAST_ZOOM = 0.02, MOST_ZOOM = 2.5;
  // Below these a name is not readable, and neither is a curve a curve.
  var NAMES_FROM = 0.42, DETAILS_FROM = 0.5, CURVES_FROM = 0.3;
  var STATES = ["current", "stale", "failed", "blocked", "new", "unknown"];
  // Longer paths take more time than as many short ones.
  var EDGES_AT_ONCE = 64;

  function Canvas(area, on) {
    this.area = area;
    this.on = on;
    this.nodes = [];
    this.edges = [];
    this.byName = new Map();
    this.zoom = 1;
    this.x = this.y = 0;
    this.isLit = false;
    this.pointed = null;
    this.element = document.createElement("canvas");
    this.context = this.element.getContext("2d");
    area.append(this.element);
    this.readColours();
    this.listen();
    this.resize();
    new ResizeObserver(this.resize.bind(this)).observe(area);
  }

  Canvas.prototype.readColours = function () {
    var css = getComputedStyle(document.documentElement);
    function read(name) { return css.getPropertyValue(name).trim(); }
    this.colours = { card: read("--card"), text: read("--text"), quiet: read("--quiet"), edge: read("--edge"), accent: read("--accent"), line: read("--line") };
    STATES.forEach(function (state) {
      this.colours[state] = read("--" + state);
      this.colours[state + "-soft"] = read("--" + state + "-soft");
    }, this);
    this.family = read("--sans") || "sans-serif";
    this.draw();
  };

  Canvas.prototype.resize = function () {
    var box = this.area.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.ratio = ratio;
    this.element.width = Math.max(1, Math.round(box.width * ratio));
    this.element.height = Math.max(1, Math.round(box.height * ratio));
    this.paint();
  };

  // Nodes are {name, state, shape, border, label, detail, x, y}, edges {from, to, id, points}.
  Canvas.prototype.show = function (nodes, edges) {
    this.nodes = nodes;
    this.edges = edges;
    this.byName = new Map(nodes.map(function (node) { return [node.name, node]; }));
    this.pointed = null;
    this.light(null, null);
  };

  // Only these nodes and edges stay as they are, the others fade; null is everything.
  Canvas.prototype.light = function (names, edges, chosen) {
    this.isLit = Boolean(names);
    this.nodes.forEach(function (node) {
      node.isFaded = Boolean(names) && !names.has(node.name);
      node.isChosen = node.name === chosen;
    });
    this.edges.forEach(function (edge) { edge.isWay = Boolean(edges) && edges.has(edge.id); });
    this.draw();
  };

  // --- the view ----------------------------------------------------------------------------------------------------

  Canvas.prototype.fit = function (nodes) {
    nodes = nodes && nodes.length ? nodes : this.nodes;
    if (!nodes.length || !this.width || !this.height) return;
    var left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    nodes.forEach(function (node) {
      left = Math.min(left, node.x); right = Math.max(right, node.x);
      top = Math.min(top, node.y); bottom = Math.max(bottom, node.y);
    });
    var wide = right - left + WIDTH, high = bottom - top + HEIGHT;
    var zoom = Math.min(1.1, (this.width - 56) / wide, (this.height - 56) / high);
    this.look(Math.max(LEAST_ZOOM, zoom), (left + right) / 2, (top + bottom) / 2);
  };

  Canvas.prototype.look = function (zoom, x, y) {
    this.zoom = zoom;
    this.x = this.width / 2 - x * zoom;
    this.y = this.height / 2 - y * zoom;
    this.moved();
  };

  Canvas.prototype.moveBy = function (x, y) {
    this.x += x;
    this.y += y;
    this.moved();
  };

  // Zoom by a factor; what is at this place of the area stays there.
  Canvas.prototype.zoomBy = function (factor, x, y) {
    if (x === undefined) { x = this.width / 2; y = this.height / 2; }
    var zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, this.zoom * factor));
    this.x = x - (x - this.x) * zoom / this.zoom;
    this.y = y - (y - this.y) * zoom / this.zoom;
    this.zoom = zoom;
    this.moved();
  };

  Canvas.prototype.moved = function () { this.on.move(); this.draw(); };

  // The middle of a node in the area, and the node at a place of it.
  Canvas.prototype.locate = function (name) {
    var node = this.byName.get(name);
    return { x: node.x * this.zoom + this.x, y: node.y * this.zoom + this.y };
  };

  Canvas.prototype.findAt = function (x, y) {
    var wx = (x - this.x) / this.zoom, wy = (y - this.y) / this.zoom;
    return this.nodes.find(function (node) {
      return Math.abs(wx - node.x) <= WIDTH / 2 && Math.abs(wy - node.y) <= HEIGHT / 2;
    }) || null;
  };

  Canvas.prototype.keepInView = function (name) {
    var at = this.locate(name), beside = WIDTH / 2 * this.zoom, above = HEIGHT / 2 * this.zoom;
    if (at.x < beside || at.y < above || at.x > this.width - beside || at.y > this.height - above) {
      this.moveBy(this.width / 2 - at.x, this.height / 2 - at.y);
    }
  };

  // --- the mouse, the wheel and fingers ----------------------------------------------------------------------------

  Canvas.prototype.listen = function () {
    var self = this, element = this.element, fingers = new Map(), began = null;
    function placeOf(event) {
      var box = element.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    }
    function middle(places) {
      return { x: (places[0].x + places[1].x) / 2, y: (places[0].y + places[1].y) / 2 };
    }
    element.addEventListener("pointerdown", function (event) {
      if (event.button) return;
      element.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, placeOf(event));
      began = fingers.size === 1 ? { at: placeOf(event), isDrag: false } : null;
    });
    element.addEventListener("pointermove", function (event) {
      var at = placeOf(event), before = fingers.get(event.pointerId);
      if (!before) return self.point(at);
      if (fingers.size === 2) {
        var old = Array.from(fingers.values());
        fingers.set(event.pointerId, at);
        var now = Array.from(fingers.values()), from = middle(old), to = middle(now);
        var apart = Math.hypot(old[0].x - old[1].x, old[0].y - old[1].y) || 1;
        self.zoomBy(Math.hypot(now[0].x - now[1].x, now[0].y - now[1].y) / apart, from.x, from.y);
        return self.moveBy(to.x - from.x, to.y - from.y);
      }
      fingers.set(event.pointerId, at);
      if (!began) return;
      if (!began.isDrag && Math.hypot(at.x - began.at.x, at.y - began.at.y) < 4) return;
      if (!began.isDrag) before = began.at;
      began.isDrag = true;
      element.classList.add("dragged");
      self.moveBy(at.x - before.x, at.y - before.y);
    });
    function end(event) {
      var isClick = event.type === "pointerup" && began && !began.isDrag && fingers.has(event.pointerId);
      fingers.delete(event.pointerId);
      element.classList.remove("dragged");
      if (!isClick) return;
      var node = self.findAt(began.at.x, began.at.y);
      self.area.focus({ preventScroll: true });
      self.on.click(node && node.name);
    }
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    element.addEventListener("pointerleave", function () { self.point(null); });
    element.addEventListener("dblclick", function (event) {
      var at = placeOf(event), node = self.findAt(at.x, at.y);
      if (node) self.on.open(node.name);
    });
    element.addEventListener("wheel", function (event) {
      event.preventDefault();
      var at = placeOf(event), lines = event.deltaMode === 1 ? 16 : 1;
      var step = Math.max(-120, Math.min(120, event.deltaY * lines));
      self.zoomBy(Math.exp(-step * (event.ctrlKey ? 0.01 : 0.0025)), at.x, at.y);
    }, { passive: false });
  };

  Canvas.prototype.point = function (at) {
    var node = at && this.findAt(at.x, at.y), name = node ? node.name : null;
    if (name === this.pointed) return;
    this.pointed = name;
    this.element.style.cursor = name ? "pointer" : "";
    this.on.point(name, at);
    this.draw();
  };

  // --- drawing -----------------------------------------------------------------------------------------------------

  Canvas.prototype.draw = function () {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(this.paint.bind(this));
  };

  Canvas.prototype.paint = function () {
    this.isWaiting = false;
    var ctx = this.context, scale = this.ratio * this.zoom;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.element.width, this.element.height);
    ctx.setTransform(scale, 0, 0, scale, this.x * this.ratio, this.y * this.ratio);
    this.seen = {
      left: -this.x / this.zoom, top: -this.y / this.zoom,
      right: (this.width - this.x) / this.zoom, bottom: (this.height - this.y) / this.zoom,
    };
    this.drawEdges(false);
    this.drawEdges(true);
    var nodes = this.nodes.filter(this.isInView, this);
    if (this.zoom < NAMES_FROM) this.drawBlocks(nodes);
    else nodes.forEach(this.drawNode, this);
  };

  Canvas.prototype.isInView = function (node) {
    return node.x + WIDTH / 2 > this.seen.left && node.x - WIDTH / 2 < this.seen.right &&
      node.y + HEIGHT / 2 > this.seen.top && node.y - HEIGHT / 2 < this.seen.bottom;
  };

  Canvas.prototype.isEdgeInView = function (edge) {
    return edge.right > this.seen.left && edge.left < this.seen.right && edge.bottom > this.seen.top && edge.top < this.seen.bottom;
  };

  // Those of the way that was asked for, or the others.
  Canvas.prototype.drawEdges = function (isWay) {
    var ctx = this.context, drawn = 0, isCurved = this.zoom >= CURVES_FROM, zoom = this.zoom;
    ctx.strokeStyle = ctx.fillStyle = isWay ? this.colours.accent : this.colours.edge;
    ctx.globalAlpha = isWay ? 1 : this.isLit ? 0.22 : isCurved ? 1 : 0.6;
    ctx.lineWidth = Math.max(isWay ? 2.2 : 1.4, (isWay ? 1.4 : 0.7) / zoom);
    ctx.beginPath();
    this.edges.forEach(function (edge) {
      if (edge.isWay !== isWay || !this.isEdgeInView(edge)) return;
      follow(ctx, edge.points, isCurved);
      if (++drawn % EDGES_AT_ONCE === 0) { ctx.stroke(); ctx.beginPath(); }
    }, this);
    ctx.stroke();
    if (isCurved) this.drawArrows(isWay);
    ctx.globalAlpha = 1;
  };

  Canvas.prototype.drawArrows = function (isWay) {
    var ctx = this.context;
    ctx.beginPath();
    this.edges.forEach(function (edge) {
      var at = edge.points[edge.points.length - 1];
      if (edge.isWay !== isWay || !this.isEdgeInView(edge)) return;
      ctx.moveTo(at.x + 1, at.y);
      ctx.lineTo(at.x - 7, at.y - 4);
      ctx.lineTo(at.x - 7, at.y + 4);
      ctx.closePath();
    }, this);
    ctx.fill();
  };

  // From one layer to the next in a curve that leaves and arrives level.
  function follow(ctx, points, isCurved) {
    ctx.moveTo(points[0].x, points[0].y);
    for (var i = 1; i < points.length; i++) {
      var from = points[i - 1], to = points[i], half = (to.x - from.x) / 2;
      if (!isCurved || from.y === to.y) ctx.lineTo(to.x, to.y);
      else ctx.bezierCurveTo(from.x + half, from.y, to.x - half, to.y, to.x, to.y);
    }
  }

  // From afar: one colour for each state, what is current the quietest.
  Canvas.prototype.drawBlocks = function (nodes) {
    var ctx = this.context, colours = this.colours;
    [true, false].forEach(function (isFaded) {
      ctx.globalAlpha = isFaded ? 0.15 : 1;
      STATES.forEach(function (state) {
        ctx.fillStyle = colours[state];
        if (state === "current" && !isFaded) ctx.globalAlpha = 0.55;
        nodes.forEach(function (node) {
          if (node.isFaded === isFaded && node.state === state) ctx.fillRect(node.x - WIDTH / 2, node.y - HEIGHT / 2, WIDTH, HEIGHT);
        });
        ctx.globalAlpha = isFaded ? 0.15 : 1;
      });
    });
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colours.accent;
    ctx.lineWidth = 2.5 / this.zoom;
    nodes.forEach(function (node) {
      if (node.isChosen || node.name === this.pointed) ctx.strokeRect(node.x - WIDTH / 2, node.y - HEIGHT / 2, WIDTH, HEIGHT);
    }, this);
  };

  Canvas.prototype.drawNode = function (node) {
    var ctx = this.context, colours = this.colours, x = node.x - WIDTH / 2, y = node.y - HEIGHT / 2;
    var isQuiet = node.state === "current";
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.card;
    SqbShapes.trace(ctx, node.shape, x, y, WIDTH, HEIGHT);
    ctx.fill();
    ctx.globalAlpha = node.isFaded ? 0.2 : 1;
    ctx.fillStyle = isQuiet ? colours.card : colours[node.state + "-soft"];
    ctx.fill();
    ctx.strokeStyle = node.isChosen ? colours.accent : isQuiet && node.name !== this.pointed ? colours.edge : colours[node.state];
    ctx.lineWidth = node.isChosen ? 3 : node.name === this.pointed ? 2 : 1.3;
    if (node.border === "dashed") ctx.setLineDash([5, 3.5]);
    ctx.stroke();
    ctx.setLineDash([]);
    if (node.border === "double") {
      ctx.lineWidth = 1;
      SqbShapes.trace(ctx, node.shape, x + 3.5, y + 3.5, WIDTH - 7, HEIGHT - 7);
      ctx.stroke();
    }
    ctx.fillStyle = colours[node.state];
    ctx.beginPath();
    ctx.arc(x + 20, node.y, 4.5, 0, 7);
    ctx.fill();
    this.drawTexts(node, x + 34, WIDTH - 34 - 14);
    ctx.globalAlpha = 1;
  };

  Canvas.prototype.drawTexts = function (node, x, width) {
    var ctx = this.context, isDetailed = this.zoom >= DETAILS_FROM || node.isColumn;
    ctx.textBaseline = "middle";
    ctx.font = "600 13px " + this.family;
    ctx.fillStyle = this.colours.text;
    if (node.shownLabel === undefined) node.shownLabel = cut(ctx, node.label, width);
    ctx.fillText(node.shownLabel, x, isDetailed && node.detail ? node.y - 7.5 : node.y + 0.5);
    if (!isDetailed || !node.detail) return;
    ctx.font = (node.isColumn ? "600 11px " : "11px ") + this.family;
    ctx.fillStyle = node.isColumn ? this.colours.accent : this.colours.quiet;
    if (node.shownDetail === undefined) node.shownDetail = cut(ctx, node.detail, width);
    ctx.fillText(node.shownDetail, x, node.y + 9);
  };

  // As much of a text as there is room for.
  function cut(ctx, text, width) {
    if (ctx.measureText(text).width <= width) return text;
    var low = 1, high = text.length;
    while (low < high) {
      var middle = (low + high + 1) >> 1;
      if (ctx.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
      else high = middle - 1;
    }
    return text.slice(0, low) + "…";
  }

  return { Canvas: Canvas, READABLE: DETAILS_FROM };
})();
