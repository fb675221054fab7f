// The selectors of the command line, over the graph of the page: `+model+1 tag:finance,path:marts`.
// sqb.selection has the same in Python; a test compares the two.
window.SqbSelectors = (function () {
  var TERM = /^(@)?(\d*\+)?([^+@][^+]*?)(\+\d*)?$/;
  var TYPES = ["model", "seed", "loader", "task", "asset", "check"];

  function Problem(message) { this.message = message; }

  function glob(pattern) {
    var source = "";
    for (var i = 0; i < pattern.length; i++) {
      var c = pattern[i];
      if (c === "*") source += ".*";
      else if (c === "?") source += ".";
      else if (c === "[" && pattern.indexOf("]", i + 2) > 0) {
        var end = pattern.indexOf("]", i + 2);
        var inside = pattern.slice(i + 1, end).replace(/\\/g, "\\\\");
        source += "[" + (inside[0] === "!" ? "^" + inside.slice(1) : inside.replace(/^\^/, "\\^")) + "]";
        i = end;
      } else source += c.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    }
    return new RegExp("^(?:" + source + ")$", "s");
  }

  function fits(text, pattern) { return glob(pattern.toLowerCase()).test(text.toLowerCase()); }
  function shortName(name) { return name.slice(name.lastIndexOf(".") + 1); }
  function schemaOf(name) { return name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : ""; }
  function byName(node, value) { return fits(node.name, value) || fits(shortName(node.name), value); }

  function inFolder(node, value) {
    var clean = value.replace(/^\.\//, "").replace(/\/+$/, "");
    var folder = node.file.includes("/") ? node.file.slice(0, node.file.lastIndexOf("/")) : "";
    return node.file === clean || ("/" + folder.toLowerCase() + "/").includes("/" + clean.toLowerCase() + "/");
  }

  function byPath(node, value) {
    var clean = value.replace(/^\.\//, "").replace(/\/+$/, "");
    return node.file.startsWith(clean + "/") || glob(clean).test(node.file) || inFolder(node, value);
  }

  function isFile(node, value) {
    return node.file.slice(node.file.lastIndexOf("/") + 1).toLowerCase() === value.toLowerCase();
  }

  function byFile(node, value) {
    var name = node.file.slice(node.file.lastIndexOf("/") + 1);
    var stem = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "";
    return fits(name, value) || fits(stem, value);
  }

  function bySetting(node, path, value) {
    var texts = (node.config && node.config[path]) || [];
    return texts.some(function (text) { return fits(text, value); });
  }

  var METHODS = {
    "": byName,
    fqn: byName,
    tag: function (node, value) { return node.tags.some(function (tag) { return fits(tag, value); }); },
    path: byPath,
    file: byFile,
    owner: function (node, value) { return node.owner !== "" && fits(node.owner, value); },
    group: function (node, value) { return node.group !== "" && fits(node.group, value); },
    resource_type: function (node, value) { return glob(value.toLowerCase()).test(node.type); },
  };
  TYPES.forEach(function (type) {
    METHODS[type] = function (node, value) { return node.type === type && byName(node, value); };
  });

  function isOutside(node) { return ["source", "dbt", "exposure", "hook"].includes(node.type); }

  function Graph(data) {
    var self = this;
    this.nodes = data.nodes;
    this.byName = new Map(data.nodes.map(function (node) { return [node.name, node]; }));
    this.up = new Map();
    this.down = new Map();
    data.nodes.forEach(function (node) { self.up.set(node.name, []); self.down.set(node.name, []); });
    data.nodes.forEach(function (node) {
      node.upstream.forEach(function (above) {
        if (!self.byName.has(above)) return;
        self.up.get(node.name).push(above);
        self.down.get(above).push(node.name);
      });
    });
    this.facts = data.facts || {};
  }

  Graph.prototype.reach = function (start, step, depth) {
    var reached = new Set(), level = new Set(start);
    for (var i = 0; i < depth && level.size; i++) {
      var next = new Set();
      level.forEach(function (name) {
        (step.get(name) || []).forEach(function (other) {
          if (!reached.has(other)) { reached.add(other); next.add(other); }
        });
      });
      level = next;
    }
    return reached;
  };

  function depthOf(text) {
    if (!text) return 0;
    var digits = text.replace(/\+/g, "");
    return digits ? Number(digits) : Infinity;
  }

  function start(graph, method, value) {
    var inside = graph.nodes.filter(function (node) { return !isOutside(node); });
    var names = function (matches) { return matches.map(function (node) { return node.name; }); };
    if (method === "source" || method === "exposure") {
      var types = method === "source" ? ["source", "dbt"] : ["exposure"];
      return names(graph.nodes.filter(function (node) {
        return types.includes(node.type) && (fits(node.name, value) || fits(schemaOf(node.name), value));
      }));
    }
    if (["state", "result", "source_status", "selector"].includes(method)) {
      var facts = graph.facts[method + ":" + value];
      if (facts) return facts;
      if (method !== "state") throw new Problem('"' + value + '" is not a value of ' + method + ":");
      // The colours of the graph, beside what the command line knows.
      var coloured = names(graph.nodes.filter(function (node) { return node.state === value; }));
      if (!["current", "stale", "failed", "blocked"].includes(value)) {
        throw new Problem('"' + value + '" is not a value of state:');
      }
      return coloured;
    }
    var test = METHODS[method];
    if (method.startsWith("config.")) {
      test = function (node, wanted) { return bySetting(node, method.slice(7), wanted); };
    }
    if (!test) throw new Problem('"' + method + ':" is not a selector method');
    var matches = inside.filter(function (node) { return test(node, value); });
    if (!matches.length && !method) matches = inside.filter(function (node) {
      return inFolder(node, value) || isFile(node, value);
    });
    // What is not built can be looked at all the same.
    if (!matches.length && !method) matches = graph.nodes.filter(function (node) { return isOutside(node) && byName(node, value); });
    return names(matches);
  }

  function term(graph, text) {
    var parts = TERM.exec(text);
    if (!parts || (parts[1] && parts[2])) throw new Problem('"' + text + '" is not a selector');
    var core = parts[3], colon = core.indexOf(":");
    var method = colon < 0 ? "" : core.slice(0, colon), value = core.slice(colon + 1);
    if (!value) throw new Problem('"' + text + '" is not a selector');
    var above = depthOf(parts[2]), below = parts[1] ? Infinity : depthOf(parts[4]);
    var matches = start(graph, method, value);
    if (method === "exposure") above = Math.max(1, above);
    if (method === "source" || method === "source_status") below = Math.max(1, below);
    var facts = ["state", "result", "source_status", "selector"].includes(method);
    if (!matches.length && !facts) throw new Problem('nothing is called "' + core + '"');
    var chosen = new Set(matches);
    graph.reach(matches, graph.up, above).forEach(function (name) { chosen.add(name); });
    graph.reach(matches, graph.down, below).forEach(function (name) { chosen.add(name); });
    if (parts[1]) graph.reach(chosen, graph.up, Infinity).forEach(function (name) { chosen.add(name); });
    return chosen;
  }

  function words(graph, text) {
    var chosen = new Set();
    text.split(/\s+/).filter(Boolean).forEach(function (word) {
      var sets = word.split(",").map(function (part) { return term(graph, part.trim()); });
      sets[0].forEach(function (name) {
        if (sets.every(function (set) { return set.has(name); })) chosen.add(name);
      });
    });
    return chosen;
  }

  // The names that are selected, or the message that says why not.
  function select(graph, include, exclude) {
    try {
      var chosen = include.trim() ? words(graph, include) : new Set(graph.byName.keys());
      if (exclude.trim()) words(graph, exclude).forEach(function (name) { chosen.delete(name); });
      return { names: chosen, problem: "" };
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      return { names: new Set(), problem: problem.message };
    }
  }

  return { Graph: Graph, select: select };
})();
