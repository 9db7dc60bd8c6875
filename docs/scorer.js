// Scores of Sphinx's search, with pages for contributors below all others.
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    const isInternal = /^(architecture|gpu-internals|changelog|recoded-jpeg|project)$/.test(page);
    return isInternal ? score - 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
