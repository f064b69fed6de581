'use strict';
// Uploads: each file is a PUT, a large one in parts that resume where they were cut off
// (docs/http.md, section 5).
(() => {
	const atOnce = 3; // files
	const resumable = 1 << 20; // bytes from which a file is sent in parts
	const part = 64 << 20; // bytes; a browser may send one again by itself
	const silence = 90e3, absence = 10 * 60e3; // ms without a byte, and without progress
	const again = [0, 202, 408, 416, 423, 429, 502, 503, 504]; // what may work another time; 0 is a lost connection
	const zone = document.getElementById('upload'), files = document.getElementById('files');
	const items = document.getElementById('uploads'), said = document.getElementById('uploaded');
	const waiting = [];
	let running = 0, done = 0, failed = 0;

	const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
	const readable = n => {
		let unit = -1;
		for (; n >= 1024 && unit < 5; unit++) n /= 1024;
		return unit < 0 ? n + ' B' : n.toFixed(1) + ' ' + 'KMGTPE'[unit] + 'iB';
	};
	const make = (tag, parent, text) => {
		const e = parent.appendChild(document.createElement(tag));
		e.textContent = text;
		return e;
	};

	function add(file) {
		const item = {file, line: make('li', items, ''), plain: file.size < resumable, had: 0};
		make('bdi', item.line, file.name);
		item.bar = make('progress', item.line, '');
		item.bar.max = file.size || 1;
		item.bar.value = 0;
		item.bar.setAttribute('aria-label', file.name);
		item.state = make('span', item.line, 'waiting');
		item.button = make('button', item.line, 'Cancel');
		queue(item);
	}

	function queue(item) {
		item.canceled = false;
		item.line.className = '';
		item.state.textContent = 'waiting';
		button(item, 'Cancel', () => {
			item.canceled = true;
			item.xhr?.abort();
			if (waiting.includes(item)) {
				waiting.splice(waiting.indexOf(item), 1);
				fail(item, 'canceled');
			}
		});
		waiting.push(item);
		next();
	}

	function button(item, text, action) {
		item.button.textContent = text;
		item.button.hidden = !text;
		item.button.setAttribute('aria-label', text + ' ' + item.file.name);
		item.button.onclick = action;
	}

	function next() {
		while (running < atOnce && waiting.length) {
			running++;
			send(waiting.shift()).finally(() => {
				running--;
				next();
				if (!running) renew();
			});
		}
		report();
	}

	function report() {
		const left = running + waiting.length;
		said.textContent = [left && left + ' under way', done && done + ' uploaded', failed && failed + ' not uploaded'].filter(Boolean).join(', ');
	}

	// sourceOf returns what identifies a file's content to the server, which resumes only an upload
	// of the same source. Another file may have the same size and time, so a hash of the beginning
	// joins them. Browsers compute hashes only for pages by HTTPS or of this machine; for others a
	// random number lets the upload resume as long as the page is open.
	async function sourceOf(file) {
		const hash = crypto.subtle ? await crypto.subtle.digest('SHA-256', await file.slice(0, 1 << 20).arrayBuffer()) :
			crypto.getRandomValues(new Uint8Array(16));
		const hex = Array.from(new Uint8Array(hash), b => b.toString(16).padStart(2, '0')).join('');
		return `page-${file.size}-${file.lastModified}-${hex}`;
	}

	// send sends a file until it is there, or cannot be sent.
	async function send(item) {
		const file = item.file;
		let began = Date.now(), wait = 500;
		item.had = item.bar.value = 0;
		item.kept = undefined; // how much the server has, if it has just said so
		while (!item.canceled) {
			try {
				await file.slice(0, 1).arrayBuffer();
				if (!item.plain) item.source ??= await sourceOf(file);
			} catch {
				return fail(item, 'the file cannot be read; if it has changed, choose it again', 'Dismiss', () => dismiss(item));
			}
			item.state.textContent = 'sending';
			const answer = await attempt(item);
			// The answer to what came whole may have been lost.
			const there = answer.status === 412 && item.had === file.size && await hasAll(file);
			if (answer.status === 201 || answer.status === 204 || there) {
				item.bar.value = item.bar.max;
				item.state.textContent = readable(file.size) + ' uploaded';
				item.line.className = 'done';
				button(item, '');
				done++;
				return report();
			}
			if (item.canceled) break;
			if (item.kept !== undefined) continue; // the next part
			if (answer.progress) [began, wait] = [Date.now(), 500];
			if ((answer.status === 400 || answer.status === 501) && !item.plain) {
				item.plain = true; // the server keeps no parts
				continue;
			}
			if (answer.status === 412 || answer.status === 409 && !item.replaces) {
				const may = zone.dataset.replaces === 'true';
				return fail(item, answer.status === 409 ? answer.text : 'a file has that name' + (may ? '' : ', and may not be replaced'), may ? 'Replace' : 'Try again', () => {
					item.replaces = may;
					retry(item);
				});
			}
			if (!again.includes(answer.status) || Date.now() - began > absence) {
				return fail(item, answer.status ? answer.text : 'the connection is lost', 'Try again', () => retry(item));
			}
			item.state.textContent = answer.status ? answer.text + '; trying again' : 'the connection is lost; trying again';
			await pause(wait);
			wait = Math.min(2 * wait, 5000);
		}
		if (!item.plain) discard(item);
		fail(item, 'canceled', 'Try again', () => retry(item));
	}

	function fail(item, text, label = 'Try again', action = () => retry(item)) {
		item.state.textContent = text;
		item.line.className = 'failed';
		item.bar.value = 0;
		button(item, label, action);
		failed++;
		report();
	}

	function dismiss(item) {
		failed--;
		item.line.remove();
		report();
	}

	function retry(item) {
		failed--;
		queue(item);
	}

	// attempt sends what the server lacks of a file.
	async function attempt(item) {
		const size = item.file.size, source = item.source;
		if (item.plain) return request(item, {}, item.file, 0);
		if (item.kept === undefined) {
			const asked = await request(item, {'Content-Range': 'bytes */' + size, 'Upload-Source': source}, null, 0);
			if (asked.status !== 202 || item.canceled) return asked;
			item.kept = asked.offset;
		}
		const from = Math.min(item.kept, size - 1), to = Math.min(from + part, size);
		const answer = await request(item, {'Content-Range': `bytes ${from}-${to - 1}/${size}`, 'Upload-Source': source}, item.file.slice(from, to), from);
		item.kept = answer.status === 202 && answer.offset > from ? answer.offset : undefined;
		return answer;
	}

	async function hasAll(file) {
		try {
			const answer = await fetch(encodeURIComponent(file.name), {method: 'HEAD'});
			return answer.ok && Number(answer.headers.get('Content-Length')) === file.size;
		} catch {
			return false;
		}
	}

	// discard has the server forget a file that was canceled, by asking for another one.
	async function discard(item) {
		const size = item.file.size;
		for (let i = 0; i < 20; i++) {
			const answer = await request({file: item.file}, {'Content-Range': 'bytes */' + size, 'Upload-Source': 'canceled'}, null, 0);
			if (answer.status !== 423 && answer.status !== 0) return;
			await pause(500);
		}
	}

	function request(item, fields, body, from) {
		return new Promise(resolve => {
			const xhr = item.xhr = new XMLHttpRequest();
			let timer, progress = false;
			const alive = () => {
				clearTimeout(timer);
				timer = setTimeout(() => xhr.abort(), silence);
			};
			xhr.open('PUT', encodeURIComponent(item.file.name));
			if (!item.replaces) xhr.setRequestHeader('If-None-Match', '*');
			for (const name in fields) xhr.setRequestHeader(name, fields[name]);
			xhr.upload.onprogress = event => {
				alive();
				const has = from + event.loaded;
				if (!body || has <= item.had) return;
				progress = true;
				item.had = item.bar.value = has;
				item.state.textContent = readable(has) + ' of ' + readable(item.file.size);
			};
			xhr.onloadend = () => {
				clearTimeout(timer);
				const text = xhr.responseText.trim(), type = xhr.getResponseHeader('Content-Type') || '';
				resolve({
					status: xhr.status, progress, offset: Number(xhr.getResponseHeader('Upload-Offset')) || 0,
					text: type.startsWith('text/plain') && text.length < 200 ? text : `the server answers ${xhr.status}`,
				});
			};
			alive();
			xhr.send(body);
		});
	}

	// renew shows the list as it is now.
	async function renew() {
		try {
			const answer = await fetch(location.href);
			const now = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('list');
			const list = document.getElementById('list');
			if (answer.ok && now) {
				list.replaceChildren(...now.childNodes);
				list.dispatchEvent(new Event('renewed'));
			}
		} catch {
			// The list stays as it was.
		}
	}

	zone.hidden = false;
	files.addEventListener('change', () => {
		for (const file of files.files) add(file);
		files.value = '';
	});
	const carriesFiles = event => event.dataTransfer?.types.includes('Files');
	for (const kind of ['dragenter', 'dragover', 'dragleave', 'drop']) {
		document.addEventListener(kind, event => {
			if (!carriesFiles(event)) return;
			event.preventDefault();
			zone.classList.toggle('over', kind === 'dragenter' || kind === 'dragover');
			if (kind !== 'drop') return;
			const folders = new Set([...event.dataTransfer.items].map(i => i.webkitGetAsEntry?.()).filter(e => e?.isDirectory).map(e => e.name));
			for (const file of event.dataTransfer.files) if (!folders.has(file.name)) add(file);
			if (folders.size) said.textContent = 'Folders cannot be uploaded: drop the files in them';
		});
	}
	addEventListener('beforeunload', event => {
		if (running) event.preventDefault();
	});
})();
