//! The page of each subsystem shows its work: numbers come from the real program and its peers.

use serde_json::json;

use crate::{
    browser::Browser,
    busy::{BusyEnv, until_page},
};

/// JavaScript function: text of the view with a title.
const VIEW: &str =
    "const view = t => document.querySelector(`.subsystem section[aria-label=\"${t}\"]:not([hidden])`);
     const text = t => view(t)?.innerText.replaceAll(/\\s+/g, ' ') ?? '';
     const figures = () => document.querySelector('.subsystem .figures').innerText.replaceAll(/\\s+/g, ' ');";

/// Waits until a JavaScript expression with `view` and `text` is true.
async fn shows(browser: &Browser, what: &str, expression: &str) {
    browser.until(what, &format!("(() => {{ {VIEW} return {expression}; }})()")).await;
}

/// JavaScript expression: the map of provenance's workers has rates.
const HAS_RATES: &str =
    "[...view('Workers').querySelectorAll('.heat-rate')].some(cell => Number(cell.textContent) > 0)";

/// Opens a page that is never answered a second read of the tree. Its map has the rates of the history.
async fn shows_rates_after_one_read(busy: &BusyEnv) {
    let browser = Browser::open(&busy.env).await;
    browser
        .run_before_pages(
            "const ask = window.fetch;
             let reads = 0;
             window.fetch = (url, ...rest) => url === '/v1/tree' && ++reads > 1 ? new Promise(() => {}) : ask(url, ...rest);",
        )
        .await;
    until_page(&browser, "#/provenance").await;
    shows(&browser, "rates after one read of the tree", HAS_RATES).await;
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn each_subsystem_page_shows_its_work() {
    let busy = BusyEnv::shared();
    let browser = Browser::open(&busy.env).await;
    until_page(&browser, "#/queue").await;
    let span = "[...document.querySelectorAll('.subsystem h2')].some(h => /^Last (minute|\\d+ min)$/.test(h.textContent))";
    browser.until("the span of the charts", span).await;
    until_page(&browser, "#/queue?tab=runs").await;
    shows(
        &browser,
        "the backlog by age",
        "/gitlab – – ([1-9]\\d+) – \\1/.test(text('Backlog by fetcher and age')) && /pypi – – – ([1-9]\\d+) \\1/.test(text('Backlog by fetcher and age'))",
    )
    .await;
    shows(
        &browser,
        "the runs",
        "/gitlab \\d+ 30 h \\d+ min 3000 [1-9]\\d+ complete/.test(text('Backlog by fetcher and age'))",
    )
    .await;

    shows(
        &browser,
        "figures",
        "/Waiting [\\d.]+k \\d+ s ago In flight [1-9]\\d* \\d+ s ago Done, 24 h [1-9]\\S* Failed, 24 h/.test(figures())",
    )
    .await;

    until_page(&browser, "#/provenance").await;
    shows(
        &browser,
        "figures",
        "/Rows written [1-9]\\S*\\/s Rows waiting \\d+ Unacknowledged – there is no broker Dead letters [1-9]/.test(figures())",
    )
    .await;
    shows(
        &browser,
        "a map of 5 exchanges and 16 ranges",
        "view('Workers').querySelectorAll('tbody tr').length === 5 && view('Workers').querySelectorAll('.heat').length === 80",
    )
    .await;
    shows(&browser, "rates on the map", HAS_RATES).await;
    shows_rates_after_one_read(&busy).await;
    shows(
        &browser,
        "latencies",
        "/content_add \\d\\S* (under )?\\d[^ ]*( [mµ]?s – [^ ]+)? [mµ]?s/.test(text('Latency by method'))",
    )
    .await;
    shows(
        &browser,
        "dead letters with their worker and reason",
        "/location_\\w [1-9]/.test(text('Dead letters by worker')) && text('Latest dead letters').includes('index')",
    )
    .await;

    browser.go("#/tree/orchestrator/provenance?tab=events").await;
    browser
        .until(
            "one line for equal events",
            "[...document.querySelectorAll('.drawer .event-kind')].some(e => e.textContent === '80 range workers started')",
        )
        .await;

    until_page(&browser, "#/ingester").await;
    shows(
        &browser,
        "figures",
        "/Mapping 6277a4d0 Events of the mapping [1-9]\\S* of 20k .*Gaps 0 .* Slowest worker slow/.test(figures())",
    )
    .await;
    shows(
        &browser,
        "rates on the arrows of two streams and a fast worker",
        "[...view('Flow').querySelectorAll('.arrow-text')].filter(t => /^[1-9][\\d.]* [KM]iB\\/s · [1-9]/.test(t.textContent)).length >= 3",
    )
    .await;
    shows(&browser, "what the slow worker has not read", "/slow [\\d.]+ MiB queued/.test(text('Flow'))")
        .await;
    shows(
        &browser,
        "the progress",
        "/[1-9]\\d* of 20k assigned events sent, .* left at/.test(text('Progress of the mapping'))",
    )
    .await;
    shows(&browser, "the workers", "/slow beamline connected/.test(text('Workers'))").await;

    until_page(&browser, "#/producer").await;
    shows(
        &browser,
        "figures",
        "/TCN 4 Pushed of planned \\S+ of 40k .* In the server [1-9]/.test(figures())",
    )
    .await;
    shows(&browser, "the stencil", "/TCN 4: [\\d.]+k of 40k jobs pushed/.test(text('Stencil'))").await;
    shows(
        &browser,
        "the marks and the jobs in the server",
        "/above 30k waiting jobs and resumes at 10k/.test(text('Watermarks and jobs in the server')) && /Waiting [1-9]/.test(text('Watermarks and jobs in the server'))",
    )
    .await;
    shows(
        &browser,
        "the stencils by state",
        "/Being pushed 1/.test(text('TCN')) && /Started in this TCN 1/.test(text('TCN'))",
    )
    .await;

    until_page(&browser, "#/catalog").await;
    shows(
        &browser,
        "figures",
        "/Candidates [1-9].* Claimed [1-8] .*Done [1-9].* Failed [1-9].* Dead \\d/.test(figures())",
    )
    .await;
    shows(
        &browser,
        "lag, rows and the age of the oldest lease",
        "/work running (\\d+ min )?\\d+ s [1-8] \\d+ s/.test(text('Rules'))",
    )
    .await;
    shows(
        &browser,
        "a parked rule with its reason",
        "/thumbnails parked .*Table Missing/.test(text('Rules'))",
    )
    .await;
    shows(
        &browser,
        "the last errors",
        "text('Last errors').includes('no such image') && text('Last errors').includes('Table Missing')",
    )
    .await;
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn every_link_of_every_page_leads_somewhere() {
    let busy = BusyEnv::shared();
    let browser = Browser::open(&busy.env).await;
    for page in crate::busy::PAGES {
        until_page(&browser, page).await;
        // A link leads to a page of a subsystem, to a job, or to a child of the tree.
        let dead = browser
            .run_async(
                "const done = arguments[0];
                 fetch('/v1/tree').then(r => r.json()).then(({ root }) => {
                     const known = new Set();
                     const visit = node => { known.add(node.path); node.children.forEach(visit); };
                     visit(root);
                     const pages = new Set(['', 'tree', ...root.children.filter(c => c.children.length).map(c => c.id)]);
                     const links = [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href')).filter(h => h !== '#main');
                     done(links.filter(href => {
                         const [page, ...path] = href.replace(/^#\\//, '').split('?')[0].split('/').map(decodeURIComponent);
                         const isJob = page === 'queue' && path[0] === 'job' && path.length === 2;
                         return !href.startsWith('#/') || !pages.has(page) || (path.length > 0 && !isJob && !known.has(path.join('/')));
                     }).concat(links.length > 5 ? [] : ['too few links']));
                 });",
            )
            .await;
        assert_eq!(dead, json!([]), "{page}");
    }
    browser.close().await;
}
