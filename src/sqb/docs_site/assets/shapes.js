// The outlines of nodes: one for each kind. The legend of the page draws the same ones (pages/legend.py).
window.SqbShapes = (function () {
  var BY_TYPE = { model: "card", seed: "sheet", source: "drum", dbt: "hexagon", exposure: "pill" };

  // Kinds whose tables a build changes in part have a second line inside their border.
  var CHANGED_IN_PART = ["append", "merge", "scd2", "tracked", "incremental"];

  function shapeOf(node) { return BY_TYPE[node.type] || "octagon"; }
  function borderOf(node) {
    return node.kind === "view" ? "dashed" : CHANGED_IN_PART.includes(node.kind) ? "double" : "plain";
  }

  function polygon(ctx, points) {
    points.forEach(function (point, index) { ctx[index ? "lineTo" : "moveTo"](point[0], point[1]); });
    ctx.closePath();
  }

  // Begins the path of a shape within a box.
  function trace(ctx, shape, x, y, w, h) {
    ctx.beginPath();
    if (shape === "pill") ctx.roundRect(x, y, w, h, h / 2);
    else if (shape === "sheet") {
      var fold = h * 0.3;
      polygon(ctx, [[x, y], [x + w - fold, y], [x + w, y + fold], [x + w, y + h], [x, y + h]]);
    } else if (shape === "hexagon") {
      var tip = h * 0.3;
      polygon(ctx, [[x + tip, y], [x + w - tip, y], [x + w, y + h / 2], [x + w - tip, y + h], [x + tip, y + h], [x, y + h / 2]]);
    } else if (shape === "octagon") {
      var cut = h * 0.27;
      polygon(ctx, [[x + cut, y], [x + w - cut, y], [x + w, y + cut], [x + w, y + h - cut], [x + w - cut, y + h], [x + cut, y + h], [x, y + h - cut], [x, y + cut]]);
    } else if (shape === "drum") {
      var arch = h * 0.14;
      ctx.moveTo(x, y + arch);
      ctx.quadraticCurveTo(x + w / 2, y - arch, x + w, y + arch);
      ctx.lineTo(x + w, y + h - arch);
      ctx.quadraticCurveTo(x + w / 2, y + h + arch, x, y + h - arch);
      ctx.closePath();
    } else ctx.roundRect(x, y, w, h, Math.min(8, h / 4));
  }

  return { of: shapeOf, borderOf: borderOf, trace: trace };
})();
