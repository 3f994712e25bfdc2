// Opens pages of the built site in Chromium, at desktop and phone width, light and dark: `make docs-check`.
// Fails on a serious or critical fault of axe-core, on a request that is not file://, on an error in the console, on a
// page that scrolls sideways, on a search that finds nothing or a method before the guide, and on a site of 30 MB or more.
// node check.mjs SITE CHROMIUM [FOLDER for screenshots]
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

// The packages are in the folder that this runs in.
const require = createRequire(join(process.cwd(), "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PAGES = ["index", "training", "reference/api/nn.Linear", "reference/api/index", "figures/ops.swiglu", "support/torch",
               "reference/configs/index", "search"];
// The pages that a search must find first: a guide for words, the reference for a name of the API.
const SEARCHES = { "early stopping": /^training\//, resume: /^(how_to|training|concepts)\//, csv: /^(guide|data)/,
                   "own dataset": /^how_to\/own_dataset/, "record.save": /^reference\/api\/record/ };
const WIDTHS = { desktop: 1280, phone: 390 };
const LARGEST = 30e6;

const [site, chromium, folder] = process.argv.slice(2);
const faults = [];

const size = readdirSync(site, { recursive: true, withFileTypes: true })
    .filter((it) => it.isFile()).reduce((sum, it) => sum + statSync(join(it.parentPath, it.name)).size, 0);
console.log(`the site has ${(size / 1e6).toFixed(1)} MB`);
if (size >= LARGEST) faults.push(`the site has ${size} bytes, ${LARGEST} or more`);

const browser = await puppeteer.launch({
    executablePath: chromium,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
});
for (const [width, pixels] of Object.entries(WIDTHS)) {
    for (const theme of ["light", "dark"]) {
        for (const name of PAGES) {
            const where = `${name}, ${width}, ${theme}`;
            const page = await browser.newPage();
            await page.setViewport({ width: pixels, height: 900 });
            await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
            page.on("request", (it) => {
                if (!/^(file|data|blob|about):/.test(it.url())) faults.push(`${where}: asks for ${it.url()}`);
            });
            page.on("console", (it) => it.type() === "error" && faults.push(`${where}: console: ${it.text()}`));
            page.on("pageerror", (it) => faults.push(`${where}: ${it}`));
            const query = name === "search" ? "?q=record.save" : "";
            await page.goto(`${pathToFileURL(resolve(site, `${name}.html`))}${query}`, { waitUntil: "load" });
            await page.evaluate(axe);
            if (name === "search") {
                const found = ".search li, #search-results li";
                await page.waitForSelector(found, { timeout: 20000 }).catch(() => faults.push(`${where}: finds nothing`));
            }
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            if (wide > 0) faults.push(`${where}: scrolls sideways by ${wide} pixels`);
            const { violations } = await page.evaluate(() => axe.run({ preload: false }));
            for (const it of violations.filter((one) => ["serious", "critical"].includes(one.impact))) {
                const nodes = it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join("\n      ");
                faults.push(`${where}: ${it.impact}: ${it.help}, ${it.nodes.length} times\n      ${nodes}`);
            }
            if (folder) await page.screenshot({ path: join(folder, `${where.replace(/\W+/g, "-")}.png`) });
            await page.close();
        }
    }
}
for (const [query, expected] of Object.entries(SEARCHES)) {
    const page = await browser.newPage();
    await page.goto(`${pathToFileURL(resolve(site, "search.html"))}?q=${encodeURIComponent(query)}`);
    const found = "#search-results li a";
    await page.waitForSelector(found, { timeout: 20000 }).catch(() => {});
    const first = await page.$eval(found, (it) => it.getAttribute("href")).catch(() => "nothing");
    if (!expected.test(first)) faults.push(`a search of "${query}" finds ${first} first`);
    await page.close();
}
await browser.close();
console.log(faults.join("\n"));
console.log(`${PAGES.length * 4} pages looked at, ${faults.length} faults`);
process.exit(faults.length ? 1 : 0);
