// Scores of Sphinx's search, with pages for contributors below all others; Sphinx puts this after its search tools.
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

// Sphinx finds pages that have all words of a query, and entries of the index that contain the query. This adds entries
// and titles whose words are all in the query, such as "resume" for "resume after a crash"; and if no page has all words,
// pages with some of them.
const _stemmer = new Stemmer();
const _wordsOf = (text) =>
  new Set(
    splitQuery(text.toLowerCase())
      .filter((word) => !stopwords.has(word))
      .map((word) => _stemmer.stemWord(word)),
  );

const _withLabels = (kind, labels, share, asked) => {
  const { docnames, titles, filenames } = Search._index;
  const found = [];
  for (const [label, places] of Object.entries(labels)) {
    const own = [..._wordsOf(label)];
    const isGeneral = kind === SearchResultKind.title && own.length < 2 && asked.size > 1; // "Time", "Files"
    if (!own.length || isGeneral || !own.every((word) => asked.has(word))) continue;
    for (const [page, id] of places) {
      const title = kind === SearchResultKind.title && titles[page] !== label ? `${titles[page]} > ${label}` : titles[page];
      const isFunction = docnames[page].startsWith("reference/");
      const weight = own.length * (share / asked.size + 10) - isFunction;
      const score = Scorer.score([docnames[page], , , , weight]);
      found.push([docnames[page], title, id ? "#" + id : "", null, score, filenames[page], kind]);
    }
  }
  return found;
};

const _withSomeWords = (terms, excluded) => {
  const best = new Map();
  for (const term of terms)
    for (const result of Search.performTermsSearch(new Set([term]), excluded)) {
      const before = best.get(result[0]);
      if (before) before[4] += result[4];
      else best.set(result[0], result);
    }
  return [...best.values()].map((result) => result.with(4, Scorer.score(result)));
};

const _performSearch = Search._performSearch;
Search._performSearch = (query, terms, excluded, ...others) => {
  const asked = _wordsOf(query);
  let found = _performSearch(query, terms, excluded, ...others);
  if (terms.size > 1 && !found.length) found = _withSomeWords(terms, excluded);
  found.push(
    ..._withLabels(SearchResultKind.index, Search._index.indexentries, 99, asked),
    ..._withLabels(SearchResultKind.title, Search._index.alltitles, 60, asked),
  );
  const places = new Map(); // without duplicates, the best of each
  for (const result of found.sort(_orderResultsByScoreThenName)) {
    const place = `${result[0]}${result[2]}`;
    places.delete(place);
    places.set(place, result);
  }
  return [...places.values()];
};
