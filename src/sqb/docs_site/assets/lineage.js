// The way of one column up and down: what it is made of, and what is made of it.
window.SqbLineage = (function () {
  function load(done) {
    if (window.SQB_COLUMNS) return done();
    var script = document.createElement("script");
    script.src = document.body.dataset.up + "data/columns.js";
    script.onload = done;
    document.head.append(script);
  }

  function key(ref) { return ref[0] + "\u0000" + ref[1]; }

  var uses = null;
  function findUses() {
    if (uses) return uses;
    uses = new Map();
    Object.keys(SQB_COLUMNS).forEach(function (name) {
      var table = SQB_COLUMNS[name];
      Object.keys(table.columns).forEach(function (column) {
        table.columns[column].forEach(function (ref) { add(key(ref), [name, column]); });
      });
      // "" stands for the rows: which of them there are depends on the column.
      table.rows.forEach(function (ref) { add(key(ref), [name, ""]); });
    });
    return uses;
  }
  function add(at, ref) {
    if (!uses.has(at)) uses.set(at, []);
    uses.get(at).push(ref);
  }

  function walk(start, step, edges, isUp) {
    var reached = new Map([[key(start), start]]), stack = [start];
    while (stack.length) {
      var ref = stack.pop();
      step(ref).forEach(function (other) {
        edges.add(isUp ? other[0] + "\u0000" + ref[0] : ref[0] + "\u0000" + other[0]);
        if (!reached.has(key(other))) { reached.set(key(other), other); stack.push(other); }
      });
    }
    return reached;
  }

  // The columns of each node on the way, and the edges between nodes that the way goes along.
  function trace(node, column) {
    var edges = new Set(), columns = new Map(), used = findUses();
    var above = walk([node, column], function (ref) {
      var table = SQB_COLUMNS[ref[0]];
      return (table && Object.hasOwn(table.columns, ref[1]) && table.columns[ref[1]]) || [];
    }, edges, true);
    var below = walk([node, column], function (ref) { return (ref[1] && used.get(key(ref))) || []; }, edges, false);
    [above, below].forEach(function (reached) {
      reached.forEach(function (ref) {
        if (!columns.has(ref[0])) columns.set(ref[0], new Set());
        columns.get(ref[0]).add(ref[1] || "rows");
      });
    });
    return { columns: columns, edges: edges };
  }

  return { load: load, trace: trace };
})();
