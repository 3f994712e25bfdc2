// Order of search results: for words, pages that people write come before names of the API; for a name, such as
// `record.save` or `AdamW`, the API comes first. Within the guides, a title counts more than the text.
const SECTION_SCORES = [
  [/^(start|guide|how_to)\//, 40], [/^(notebooks|concepts)\//, 32], [/^(guides|support|figures)\//, 10],
  [/^(project|design|deviations|measured|compatibility|architecture|building)\b/, 5], [/^reference\//, 0], [/^/, 36],
];
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score]) => {
    const query = new URLSearchParams(location.search).get("q") || "";
    return /[._A-Z]/.test(query) ? score : score + SECTION_SCORES.find(([pattern]) => pattern.test(page))[1];
  },
};
