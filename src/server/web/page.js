'use strict';
(() => {
  const EVERY = 1000, LATE = 5000, KEPT_RATES = 60;
  const $ = (id) => document.getElementById(id);

  // Numbers in few letters, as `lodesman top` writes them.
  const count = (v) => {
    for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
      if (v >= size * 0.9995) return (v / size).toFixed(v < size * 9.95 ? 1 : 0) + unit;
    return v.toFixed(0);
  };
  const percent = (v) => (v * 100).toFixed(0) + '%';
  const age = (s) => s < 0.995 ? (s * 1e3).toFixed(0) + ' ms' : s < 9.95 ? s.toFixed(1) + ' s' : s < 120 ? s.toFixed(0) + ' s'
    : s < 7200 ? Math.floor(s / 60) + ' min' : s < 172800 ? Math.floor(s / 3600) + ' h' : Math.floor(s / 86400) + ' d';
  const known = (v, as) => v === null || v === undefined ? '–' : as(v);

  const make = (tag, props, ...children) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...children);
    return node;
  };
  const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  // Columns: key, title, what it sorts by, how it is shown.
  const number = (key, title, as, hint) => ({ key, title, hint, n: true, by: (e) => e[key],
    show: (cell, e) => say(cell, known(e[key], as)) });
  const gauge = (cell, share, text, short) => {
    let box = cell.firstElementChild;
    if (!box) {
      box = make('span', { className: 'gauge' }, make('i'), make('b'));
      cell.replaceChildren(box);
    }
    box.className = 'gauge' + (short ? ' short' : '') + (share >= 0.9 ? ' full' : share >= 0.7 ? ' high' : '');
    box.firstChild.style.setProperty('--share', Math.round(100 * Math.min(share, 1)) + '%');
    say(box.lastChild, text);
  };
  let longestQueue = 1;
  const columns = [
    { key: 'name', title: 'Endpoint', by: (e) => e.name },
    { key: 'state', title: 'State', by: (e) => e.state, show: (cell, e) => {
      say(cell, e.state);
      cell.title = e.reason || '';
      cell.className = 'c-state state ' + tone(e.state);
    } },
    { key: 'waiting', title: 'Queue', hint: 'requests that wait at the server', n: true, by: (e) => e.waiting, show: (cell, e) => {
      if (e.waiting === null) return cell.replaceChildren('–');
      // Against the longest queue; no length of a queue is an alarm by itself.
      gauge(cell, Math.min(e.waiting / longestQueue, 0.69), count(e.waiting), true);
    } },
    number('running', 'Running', count, 'requests that the server computes'),
    { key: 'kv_usage', title: 'KV cache', hint: 'used share', n: true, by: (e) => e.kv_usage, show: (cell, e) => {
      if (e.kv_usage === null) return cell.replaceChildren('–');
      gauge(cell, e.kv_usage, percent(e.kv_usage));
    } },
    number('requests', 'Ours', String, 'requests of this picker in flight there'),
    number('prompt_tokens', 'Prompt', count, 'tokens of their prompts that are not computed yet'),
    number('output_tokens', 'Output', count, 'tokens that they are expected to generate yet'),
    { key: 'hit_rate', title: 'Hit', hint: 'cached share of the prompts of late; ~ is our estimate', n: true, by: (e) => e.hit_rate,
      show: (cell, e) => say(cell, known(e.hit_rate, (v) => (e.hit_rate_by === 'estimate' ? '~' : '') + percent(v))) },
    { ...number('prompt_tokens_per_second', 'Tokens/s', count, 'learnt speed of prompts'), css: 'speed' },
    { ...number('step_ms', 'Step', (v) => v.toFixed(1) + ' ms', 'learnt time of a decoding step'), css: 'step' },
    { key: 'scrape_age_seconds', title: 'Age', hint: 'of the metrics page', n: true, css: 'age', by: (e) => e.scrape_age_seconds, show: (cell, e) => {
      say(cell, known(e.scrape_age_seconds, age));
      cell.classList.toggle('warn', e.metrics !== 'fresh');
      cell.title = e.metrics;
    } },
    { key: 'adapters', title: 'Adapters', by: (e) => e.adapters.join(), show: (cell, e) => {
      const slots = e.adapter_slots === null ? '' : e.adapters.length + '/' + e.adapter_slots + ' ';
      say(cell, slots + e.adapters.join(', ') || '–');
      cell.title = e.adapters.join(', ');
      cell.classList.add('names');
    } },
  ];
  const css = (column) => 'c-' + (column.css || column.key.replace(/_.*/, ''));
  const tone = (state) => state === 'ready' ? 'good' : ['new', 'warming', 'draining'].includes(state) ? 'warn' : 'bad';

  const view = { seen: null, at: 0, rates: [], sort: 'name', falling: false, paused: false, lost: null, opened: null };

  // What is not known comes last in either direction.
  const sorted = (list) => {
    const column = columns.find((one) => one.key === view.sort);
    const none = (v) => v === null || v === undefined || v === '';
    return list.sort((x, y) => {
      const [a, b] = [column.by(x), column.by(y)];
      if (none(a) || none(b)) return none(a) - none(b) || (x.name < y.name ? -1 : 1);
      const order = a < b ? -1 : a > b ? 1 : 0;
      return (view.falling ? -order : order) || (x.name < y.name ? -1 : 1);
    });
  };
  const wanted = (...words) => {
    const filter = $('filter').value.trim().toLowerCase();
    return words.some((word) => String(word ?? '').toLowerCase().includes(filter));
  };

  // Rows are kept and changed, so that the focus and a selection stay where they are.
  const rows = (body, items, key, fresh, update) => {
    const old = new Map([...body.children].map((row) => [row.dataset.key, row]));
    const active = document.activeElement;
    let place = body.firstElementChild;
    for (const item of items) {
      let row = old.get(key(item));
      if (row) old.delete(key(item));
      else {
        row = fresh(item);
        row.dataset.key = key(item);
      }
      update(row, item);
      if (row === place) place = place.nextElementSibling;
      else body.insertBefore(row, place);
    }
    old.forEach((row) => row.remove());
    if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
  };

  const endpointRow = (endpoint) => {
    const open = make('button', { className: 'link', type: 'button', textContent: endpoint.name });
    open.addEventListener('click', () => showEndpoint(endpoint.name));
    const row = make('tr', {}, make('th', { scope: 'row', className: 'c-name', title: endpoint.name }, open));
    for (const column of columns.slice(1)) row.append(make('td', { className: css(column) + (column.n ? ' n' : '') }));
    return row;
  };
  const decisionRow = (decision) => {
    const open = make('button', { className: 'link', type: 'button', title: 'explain' });
    open.addEventListener('click', () => explain(decision.id));
    const cell = (className) => make('td', { className });
    return make('tr', {}, make('th', { scope: 'row' }, open), cell('why'), cell('n'), cell('n'), cell('model'), cell('n'));
  };

  const render = () => {
    const seen = view.seen;
    if (seen) {
      header(seen);
      longestQueue = Math.max(1, ...seen.endpoints.map((e) => e.waiting || 0));
      const endpoints = sorted(seen.endpoints.filter((e) => wanted(e.name, e.state, e.address, ...e.adapters, ...e.models)));
      rows($('endpoints').tBodies[0], endpoints, (e) => e.namespace + '/' + e.name, endpointRow, (row, e) =>
        columns.slice(1).forEach((column, at) => column.show(row.children[at + 1], e)));
      say($('endpoints-count'), endpoints.length === seen.endpoints_total ? String(seen.endpoints_total)
        : endpoints.length + ' of ' + seen.endpoints_total);
      empty('endpoints', endpoints, seen.endpoints, 'The pool has no endpoint.');
      const decisions = seen.decisions.filter((d) => wanted(d.id, d.request_id, d.model, d.endpoint, d.why));
      rows($('decisions').tBodies[0], decisions, (d) => d.id, decisionRow, (row, d) => {
        const [name, why, prompt, cached, model, ago] = row.children;
        say(name.firstChild, d.endpoint || 'refused');
        name.firstChild.classList.toggle('bad', !d.endpoint);
        [[why, d.why], [prompt, count(d.prompt_tokens)], [cached, count(d.cached_tokens)], [model, d.model || '–'], [ago, age(d.seconds_ago)]]
          .forEach(([cell, text]) => say(cell, text));
        model.title = d.model || '';
      });
      say($('decisions-count'), decisions.length ? 'last ' + decisions.length : '');
      empty('decisions', decisions, seen.decisions, 'None since this page is watched; the picker keeps decisions from now on.');
    }
    banner();
  };
  const empty = (what, shown, all, none) => {
    $(what + '-empty').hidden = shown.length > 0;
    say($(what + '-empty'), all.length ? 'Nothing passes the filter.' : none);
  };

  const header = (seen) => {
    $('pool').replaceChildren(make('span', { className: 'ns', textContent: seen.namespace + '/' }), seen.pool);
    const able = seen.endpoints.filter((e) => ['new', 'warming', 'ready'].includes(e.state)).length;
    $('ready').className = 'pill ' + (seen.ready ? seen.rung === 'load_only' ? 'warn' : 'good' : 'bad');
    say($('ready'), seen.ready ? seen.rung === 'load_only' ? 'ready, by load only' : 'ready' : 'not ready');
    document.title = seen.pool + ' · ' + able + '/' + seen.endpoints_total + ' · Lodesman';
    const sum = (key) => seen.endpoints.reduce((all, e) => all + (e[key] || 0), 0);
    const rate = view.rates.at(-1);
    fact('endpoints', able + ' / ' + seen.endpoints_total);
    fact('open streams', count(seen.streams));
    fact('requests/s', rate === undefined ? '–' : rate < 9.95 ? rate.toFixed(1) : count(rate), spark);
    fact('waiting', count(sum('waiting')));
    fact('running', count(sum('running')));
    fact('up', age(seen.uptime_seconds));
    say($('version'), 'Lodesman ' + seen.version);
  };
  const facts = new Map();
  const fact = (name, text, more) => {
    if (!facts.has(name)) {
      const value = make('span');
      const dd = make('dd', {}, value);
      $('facts').append(make('div', {}, make('dt', { textContent: name }), dd));
      facts.set(name, { value, dd });
    }
    say(facts.get(name).value, text);
    if (more) more(facts.get(name).dd);
  };
  const SVG = 'http://www.w3.org/2000/svg';
  const spark = (dd) => {
    let line = dd.querySelector('polyline');
    if (!line) {
      const svg = document.createElementNS(SVG, 'svg');
      for (const [name, value] of [['width', 72], ['height', 16], ['viewBox', '0 0 72 16'], ['aria-hidden', 'true']]) svg.setAttribute(name, value);
      line = svg.appendChild(document.createElementNS(SVG, 'polyline'));
      dd.append(svg);
    }
    const most = Math.max(1, ...view.rates), first = KEPT_RATES - view.rates.length;
    line.setAttribute('points', view.rates.map((rate, at) => ((first + at) * 72 / (KEPT_RATES - 1)).toFixed(1) + ',' + (15 - 14 * rate / most).toFixed(1)).join(' '));
  };

  const banner = () => {
    const notes = view.seen ? view.seen.notes : [];
    const since = view.at ? ' What is shown is ' + age((performance.now() - view.at) / 1e3) + ' old.' : '';
    const text = view.lost ? 'No answer: ' + view.lost + '. Trying on each second.' + since : notes.join('; ');
    $('banner').hidden = !text;
    $('banner').className = view.lost ? 'bad' : '';
    say($('banner'), text);
  };

  // A dialog: an endpoint, a decision, or the keys.
  const open = (title, ...body) => {
    say($('dialog-title'), title);
    $('dialog-body').replaceChildren(...body);
    if (!$('dialog').open) $('dialog').showModal();
  };
  const list = (pairs) => make('dl', {}, ...pairs.flatMap(([term, told]) =>
    [make('dt', { textContent: term }), make('dd', { textContent: told })]));
  const grid = (heads, lines) => make('div', { className: 'scroll', tabIndex: 0 }, make('table', {},
    make('thead', {}, make('tr', {}, ...heads.map(([title, n]) => make('th', { scope: 'col', className: n ? 'n' : '', textContent: title })))),
    make('tbody', {}, ...lines.map(({ cells, chosen }) => make('tr', { className: chosen ? 'chosen' : '' },
      ...cells.map((text, at) => make(at ? 'td' : 'th', { className: heads[at][1] ? 'n' : '', textContent: text })))))));

  const showEndpoint = (name) => {
    const e = view.seen.endpoints.find((one) => one.name === name);
    if (!e) return;
    open(e.name, list([
      ['address', e.address], ['namespace', e.namespace], ['state', e.state + (e.reason ? ': ' + e.reason : '') + ', for ' + age(e.state_seconds)],
      ['metrics page', e.metrics + ', ' + known(e.scrape_age_seconds, age) + ' old'],
      ['waiting, running', known(e.waiting, count) + ', ' + known(e.running, count)], ['KV cache', known(e.kv_usage, percent)],
      ['requests of ours', String(e.requests)], ['their prompts to compute', e.prompt_tokens + ' tokens'],
      ['their output to come', e.output_tokens + ' tokens'],
      ['cached of prompts', known(e.hit_rate, percent) + (e.hit_rate_by ? ', by the ' + e.hit_rate_by : '')],
      ['learnt prompt speed', known(e.prompt_tokens_per_second, count) + ' tokens/s'],
      ['learnt decoding step', known(e.step_ms, (v) => v.toFixed(1) + ' ms')],
      ['adapters', e.adapters.join(', ') || '–'], ['models', e.models.join(', ') || '–'],
    ]));
  };

  const explain = async (id) => {
    view.opened = id;
    open('Decision ' + id, make('p', { className: 'soft', textContent: 'asking' }));
    const put = (...body) => { if (view.opened === id) open('Decision ' + id, ...body); };
    try {
      const answer = await get('debug/decisions?limit=1&id=' + encodeURIComponent(id));
      if (answer.length) put(...explained(answer[0]));
      else put(make('p', { textContent: 'The picker has forgotten this decision by now.' }));
    } catch (error) {
      put(make('p', { className: 'bad', textContent: error.message }));
    }
  };
  const explained = (told) => {
    const { outcome, request } = told;
    const body = [], line = (textContent, className) => body.push(make('p', { textContent, className: className || '' }));
    if (outcome.endpoints.length) line('to ' + outcome.endpoints.join(', then '), 'good');
    else line('refused: ' + (outcome.refused || 'nobody was chosen'), 'bad');
    line([request.model || 'no model', request.prompt_tokens + ' prompt tokens', 'priority ' + request.priority,
      ...(told.profile ? ['profile ' + told.profile] : []), ...(outcome.rung ? ['rung ' + outcome.rung] : []),
      'took ' + told.took_us.toFixed(0) + ' µs', age(told.seconds_ago) + ' ago'].join(' · '), 'soft');
    if (told.request_id) line('request ' + told.request_id, 'soft');
    if (told.saturation) line('saturation ' + told.saturation.value.toFixed(2) + ' by ' + told.saturation.detector, 'soft');
    outcome.faults.forEach((fault) => line(fault.plugin + ' was left out: ' + fault.cause, 'bad'));
    const of = new Map(told.endpoints.map((e) => [e.name, e]));
    told.passes.filter((pass) => pass.candidates.length).forEach((pass) => {
      body.push(make('h3', { textContent: 'Candidates' }));
      const facts = [['waiting', (e) => known(e.waiting, count)], ['running', (e) => known(e.running, count)], ['KV', (e) => known(e.kv_usage, percent)],
        ['ours', (e) => String(e.in_flight.requests)], ['cached', (e) => count(e.prefix_hit_tokens)]];
      const heads = [['endpoint'], ...facts.map(([name]) => [name, true]),
        ...pass.scorers.map((s) => [s.name + ' ×' + s.weight + (s.failed ? ' (failed)' : ''), true]), ['sum', true]];
      body.push(grid(heads, pass.candidates.map((c) => {
        const was = of.get(c.endpoint);
        return { chosen: c.chosen !== undefined, cells: [c.endpoint, ...facts.map(([, read]) => was ? read(was) : '–'),
          ...c.scores.map((s) => s.weighted.toFixed(3)), known(c.sum, (v) => v.toFixed(3))] };
      })));
      line('chosen ' + (pass.chosen_by === 'policy' ? 'by ' + (pass.picker || 'no picker') : 'as the least loaded')
        + ' · equal to the best: ' + pass.equals, 'soft');
    });
    const out = [...told.endpoints.filter((e) => e.left_out).map((e) => [e.name, e.left_out.by, e.left_out.reason]),
      ...told.passes.flatMap((p) => p.filters).flatMap((f) => f.removed.map((r) => [r.endpoint, f.name, r.reason || '']))];
    if (out.length) body.push(make('h3', { textContent: 'Left out' }),
      grid([['endpoint'], ['by'], ['why']], out.map((cells) => ({ cells }))));
    return body;
  };
  const help = () => open('Keys', list([['/', 'filter both tables; Esc clears it'], ['↑ ↓', 'move in a table'], ['Enter', 'an endpoint in full, or why a decision was made'],
    ['s, r', 'sort by the next column; reverse'], ['p', 'pause, and go on'], ['?', 'this']]));

  // The head of the endpoints.
  const head = $('endpoints').tHead.rows[0];
  const sortBy = (key, falling) => {
    const column = columns.find((one) => one.key === key);
    view.falling = falling ?? (view.sort === key ? !view.falling : Boolean(column.n));
    view.sort = key;
    [...head.children].forEach((th, at) => {
      if (columns[at].key === key) th.setAttribute('aria-sort', view.falling ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    render();
  };
  columns.forEach((column) => {
    const button = make('button', { type: 'button', textContent: column.title, title: column.hint || '' });
    button.addEventListener('click', () => sortBy(column.key));
    head.append(make('th', { scope: 'col', className: css(column) + (column.n ? ' n' : '') }, button));
  });

  $('filter').addEventListener('input', render);
  $('pause').addEventListener('click', () => {
    view.paused = !view.paused;
    $('pause').setAttribute('aria-pressed', view.paused);
    say($('pause'), view.paused ? 'Paused' : 'Pause');
  });
  $('keys').addEventListener('click', help);
  $('close').addEventListener('click', () => $('dialog').close());
  $('dialog').addEventListener('close', () => { view.opened = null; });
  $('dialog').addEventListener('click', (event) => { if (event.target === $('dialog')) $('dialog').close(); });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $('dialog').open) return;
    const filter = $('filter');
    if (document.activeElement === filter) {
      if (event.key === 'Escape') { filter.value = ''; filter.blur(); render(); }
      return;
    }
    const at = columns.findIndex((column) => column.key === view.sort);
    const acts = {
      '/': () => filter.focus(), '?': help, p: () => $('pause').click(), r: () => sortBy(view.sort, !view.falling),
      s: () => sortBy(columns[(at + 1) % columns.length].key),
      Escape: () => { filter.value = ''; render(); },
      ArrowDown: () => move(1), ArrowUp: () => move(-1),
    };
    if (acts[event.key] && acts[event.key]() !== false) event.preventDefault();
  });
  // From row to row within the table that has the focus; false where none has it.
  const move = (by) => {
    const row = document.activeElement.closest('tbody tr');
    if (!row) return false;
    const next = by > 0 ? row.nextElementSibling : row.previousElementSibling;
    if (next) next.querySelector('button').focus();
  };

  const get = async (path) => {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), LATE);
    try {
      const answer = await fetch(path, { signal: patience.signal, cache: 'no-store' });
      if (!answer.ok) throw new Error('the picker answers ' + answer.status + ': ' + (await answer.text()).trim());
      return await answer.json();
    } catch (error) {
      throw error.name === 'AbortError' ? new Error('none within ' + LATE / 1e3 + ' s') : error instanceof TypeError ? new Error('the picker cannot be reached') : error;
    } finally {
      clearTimeout(timer);
    }
  };
  const poll = async () => {
    // A page that nobody sees asks for nothing.
    if (!view.paused && !document.hidden) {
      try {
        const seen = await get('debug/overview?decisions=50'), now = performance.now();
        if (view.seen && seen.decisions_made >= view.seen.decisions_made)
          view.rates = [...view.rates, (seen.decisions_made - view.seen.decisions_made) * 1e3 / (now - view.at)].slice(-KEPT_RATES);
        else view.rates = [];
        Object.assign(view, { seen, at: now, lost: null });
      } catch (error) {
        view.lost = error.message;
      }
      render();
    }
    setTimeout(poll, EVERY);
  };
  sortBy('name', false);
  poll();
})();
