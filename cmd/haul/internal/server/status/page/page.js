'use strict';
// The page as it changes: each event has the parts that have (see view.go). Text becomes
// text only, whatever is in it.
(() => {
	const byId = id => document.getElementById(id);
	const pause = byId('pause'), live = byId('live');
	let source;

	// cell puts a text, or a text and a part that is done, into a cell.
	function cell(td, value) {
		const [text, percent] = Array.isArray(value) ? value : [value];
		const bdi = td.firstElementChild || td.appendChild(document.createElement('bdi'));
		if (bdi.textContent !== text) bdi.textContent = text;
		let bar = td.children[1];
		if (percent === undefined) return bar && bar.remove();
		if (!bar) {
			bar = td.appendChild(document.createElement('progress'));
			bar.max = 100;
			bar.setAttribute('aria-label', 'Part that is done');
		}
		bar.value = percent;
	}

	// table puts rows into a table, and keeps those that it has.
	function table(body, part) {
		const heads = body.parentElement.tHead.rows[0].cells, old = new Map([...body.rows].map(r => [r.dataset.key, r]));
		byId(body.id + '-note').textContent = part.note;
		(part.rows || []).forEach((want, i) => {
			const row = old.get(want.k) || document.createElement('tr');
			old.delete(want.k);
			row.dataset.key = want.k;
			row.className = want.b ? 'bad' : '';
			want.c.forEach((value, k) => {
				const td = row.cells[k] || row.insertCell();
				td.dataset.label = heads[k].textContent;
				cell(td, value);
			});
			if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null);
		});
		for (const row of old.values()) row.remove();
		body.parentElement.hidden = !body.rows.length;
	}

	function chart(part) {
		const svg = byId('chart'), lines = svg.querySelectorAll('.line'), names = byId('legend').querySelectorAll('span');
		svg.setAttribute('aria-label', part.text);
		byId('most').textContent = part.most;
		part.lines.forEach((line, i) => {
			lines[i].setAttribute('d', line.path);
			names[i].textContent = line.text;
		});
	}

	function show(event) {
		const parts = JSON.parse(event.data), { server } = parts;
		delete parts.server;
		if (server && server !== document.documentElement.dataset.server) { // after a restart, maybe with other parts
			source.close();
			return location.reload();
		}
		for (const name in parts) {
			const at = byId(name);
			if (name === 'chart') chart(parts.chart);
			else if (typeof parts[name] === 'string') { if (at.textContent !== parts[name]) at.textContent = parts[name]; }
			else table(at, parts[name]);
		}
	}

	const say = text => { if (live.textContent !== text) live.textContent = text; };

	function follow() {
		source = new EventSource('events');
		source.onmessage = show;
		source.onopen = () => say('Updated every second.');
		source.onerror = () => {
			say('The connection is lost; trying again.');
			if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (source && source.readyState === EventSource.CLOSED) follow(); }, 10000);
		};
	}

	pause.onclick = () => {
		const paused = source !== null;
		pause.setAttribute('aria-pressed', paused);
		if (!paused) return follow();
		source.close();
		source = null;
		say('Paused.');
	};
	document.querySelector('.live').hidden = false;
	follow();
})();
