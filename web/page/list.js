'use strict';
// The search: what is typed hides the lines without it. A page that has only what the
// server found leaves the search to the server.
(() => {
	const search = document.getElementById('search'), count = document.getElementById('count');
	const list = document.getElementById('list'), whole = search.defaultValue === '';
	let timer;
	function filter() {
		const want = search.value.toLowerCase();
		let all = 0, shown = 0;
		for (const row of list.rows) {
			if (row.id === 'up') continue;
			const fits = row.cells[0].textContent.toLowerCase().includes(want);
			row.hidden = !fits;
			all++;
			shown += fits;
		}
		count.textContent = (want && shown + ' of ') + all + (all === 1 ? ' entry' : ' entries');
	}
	if (whole) {
		search.addEventListener('input', () => {
			clearTimeout(timer);
			timer = setTimeout(filter, 100);
		});
		list.addEventListener('renewed', filter);
		if (search.value) filter(); // the browser has kept it
	}
	document.addEventListener('keydown', event => {
		if (event.key === '/' && !event.ctrlKey && !event.altKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
			event.preventDefault();
			search.focus();
			search.select();
		} else if (event.key === 'Escape' && event.target === search && whole) {
			search.value = '';
			filter();
		}
	});
})();
