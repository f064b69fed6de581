package pipeline

import (
	"fmt"
)

// check compares the results of the plan's methods with the model.
func (m *model) check() {
	p := m.p
	m.checkPieces()
	at := m.contiguous()
	if p.Contiguous() != at {
		m.fail("contiguous is %d, and not %d", p.Contiguous(), at)
	}
	if at < m.reached {
		m.fail("contiguous fell from %d to %d", m.reached, at)
	}
	m.reached = at
	if end, ok := p.End(); ok != (m.end < noEnd) || ok && end != m.end {
		m.fail("end is %d, %v, and not %d", end, ok, m.end)
	}
	if p.Outstanding() != len(m.out) {
		m.fail("%d outstanding, and not %d", p.Outstanding(), len(m.out))
	}
	remote, local := p.Err()
	if want := m.remote.at(m.end); fmt.Sprint(remote) != fmt.Sprint(want) {
		m.fail("remote error %v, and not %v", remote, want)
	}
	if want := m.local.at(m.end); fmt.Sprint(local) != fmt.Sprint(want) {
		m.fail("local error %v, and not %v", local, want)
	}
	if remote == ErrNoProgress && m.empties < maxEmpty {
		m.fail("%v after %d empty answers", remote, m.empties)
	}
	if want := at == m.end || m.failed() && len(m.out) == 0; p.Done() != want {
		m.fail("done is %v, with %d of %d moved, %d outstanding, errors %v, %v", p.Done(), at, m.end, len(m.out), remote, local)
	}
	if m.checks++; m.checks%16 == 0 || p.Done() {
		m.checkDone()
	}
}

// checkDone checks that the plan and the model agree which bytes have moved.
func (m *model) checkDone() {
	ps := &m.p.pieces
	pos := m.start
	for i := ps.first; i != none; i = ps.all[i].next {
		for s := ps.all[i]; pos < min(s.end, m.in(m.end)); pos++ {
			if m.done(pos) != (s.state == done) {
				m.fail("byte %d: in a piece that is done %v, done %v", pos, s.state == done, m.done(pos))
				return
			}
		}
	}
}

// checkBusy fails if anything could be requested on one of the sessions although Next has returned
// false for all of them.
func (m *model) checkBusy(sessions []int) {
	if m.failed() || m.k.table.full() {
		return
	}
	i := m.contiguous()
	for i < m.in(m.end) && (m.done(i) || m.bytes[i].asks > 0) {
		i++
	}
	if i >= m.in(m.end) {
		return
	}
	end := i
	for end < min(m.in(m.end), i+int64(m.p.Chunk())) && !m.done(end) && m.bytes[end].asks == 0 && (i >= m.expected || end < m.expected) {
		end++
	}
	asked, beyond := m.asked()
	if end > m.limit {
		if i >= m.limit || asked > 0 && !m.flushed {
			return
		}
		end = m.limit
	}
	if i >= m.expected && m.expected < m.end && beyond > 0 {
		return
	}
	n := end - i
	if end == int64(len(m.bytes)) && end < m.end {
		return // the model has no more bytes, and the plan may request some after these
	}
	if m.c.Span > 0 && end-m.contiguous() > m.c.Span {
		return
	}
	for _, session := range sessions {
		if int64(m.k.Outstanding(session))+n <= m.k.sessionBytes && (m.k.bytes.out == 0 || m.k.bytes.out+n <= int64(m.k.Window())) {
			m.fail("idle: [%d, %d) could be asked for on session %d, which has %d of %d; %d of %d in all", i, end, session,
				m.k.Outstanding(session), m.k.sessionBytes, m.k.bytes.out, m.k.Window())
		}
	}
}

// checkPieces checks the internal consistency of the plan.
func (m *model) checkPieces() {
	p := m.p
	pos, prev, count, holes, beyond := p.start, int32(none), 0, 0, 0
	for i := p.pieces.first; i != none; i = p.pieces.all[i].next {
		s := p.pieces.all[i]
		if s.off != pos || s.end <= s.off || s.prev != prev {
			m.fail("piece %+v does not follow %d", s, pos)
			return
		}
		if prev != none && s.state != asked && p.pieces.all[prev].state == s.state {
			m.fail("piece %+v is apart from its neighbour", s)
		}
		if s.state == hole {
			holes++
			if p.pieces.holes[s.place] != i {
				m.fail("hole %+v is not in its place", s)
			}
		}
		if s.state == asked && s.off >= p.expected {
			beyond++
		}
		if (s.state == asked) != (s.asks[0] != none) || s.asks[0] == none && s.asks[1] != none {
			m.fail("piece %+v with these requests", s)
		}
		for _, x := range s.asks {
			if x == none {
				continue
			}
			r := p.link.table.at(x)
			if r.piece != i || r.plan != p || r.off > s.off || s.asks[1] == none && !r.waits {
				m.fail("piece %+v is asked for by %+v", s, r)
			}
		}
		pos, prev = s.end, i
		count++
	}
	if pos != p.end && count > 0 || prev != p.pieces.last || count != p.pieces.count || holes != len(p.pieces.holes) || beyond != p.beyond {
		m.fail("pieces end at %d and not %d, last %d %d, count %d %d, holes %d %d, beyond %d %d",
			pos, p.end, prev, p.pieces.last, count, p.pieces.count, holes, len(p.pieces.holes), beyond, p.beyond)
	}
	if count > maxPieces {
		m.fail("%d pieces", count)
	}
	for n := 1; n < len(p.pieces.holes); n++ {
		if p.pieces.all[p.pieces.holes[n]].off < p.pieces.all[p.pieces.holes[(n-1)/2]].off {
			m.fail("holes are out of order: %v", p.pieces.holes)
		}
	}
	waiting := 0
	for x := p.ages.oldest; x != none; x = p.link.table.at(x).younger {
		if r := p.link.table.at(x); !r.waits || r.piece == none || waiting > MaxOutstanding {
			m.fail("%+v waits", r)
			return
		}
		waiting++
	}
}

// checkLink checks the state that the plans of a link share.
func checkLink(k *Link, plans []*model) string {
	var sessions [MaxSessions]int64
	count := 0
	for _, m := range plans {
		for _, r := range m.out {
			sessions[r.session] += int64(r.n)
			count++
		}
	}
	total := int64(0)
	for session, n := range sessions {
		total += n
		if n != k.sessions[session] {
			return fmt.Sprintf("session %d has %d bytes outstanding, and not %d", session, k.sessions[session], n)
		}
	}
	if total != k.bytes.out || total > k.bytes.ceiling || count != k.table.used || count > MaxOutstanding {
		return fmt.Sprintf("%d bytes outstanding and not %d, at most %d; %d requests and not %d", k.bytes.out, total, k.bytes.ceiling, k.table.used, count)
	}
	if sessions := k.sessionsFor(noEnd); sessions < 1 || sessions > k.most {
		return fmt.Sprintf("%d sessions of %d", sessions, k.most)
	}
	return ""
}

// judge checks the final state, when nothing is outstanding any more.
func (m *model) judge() {
	if !m.p.Done() || len(m.out) > 0 {
		m.fail("not done: %d of %d moved, %d outstanding, limit %d", m.contiguous(), m.end, len(m.out), m.limit)
		return
	}
	remote, local := m.p.Err()
	for i := m.start; i < m.in(m.end); i++ {
		b := m.bytes[i]
		if b.fresh > 1 || b.fresh > b.again {
			m.fail("byte %d: %+v", i, b)
		}
		if remote == nil && local == nil && !m.done(i) {
			m.fail("byte %d never came", i)
		}
	}
	moved := int64(0)
	for _, b := range m.bytes {
		moved += int64(b.fresh)
	}
	if st := m.p.Stats(); st.Moved != moved || st.Requests != m.requests {
		m.fail("%+v, but %d bytes moved in %d requests", st, moved, m.requests)
	}
}
