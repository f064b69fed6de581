package pipeline

import (
	"fmt"
	"time"
)

// A model wraps a plan for tests, and checks its results. It records the state of each byte of the
// file, so it is simple, but slow. A test's driver calls the methods of the model, which call those
// of the plan.
type model struct {
	c     Config
	k     *Link
	p     *Plan
	bytes []modelByte // state of the bytes from offset 0 on
	out   map[uint32]modelRequest

	start, expected, end int64 // end is noEnd while the end is unknown
	limit                int64
	flushed              bool
	remote, local        failure
	requests             int64
	chunk                int // the plan's chunk before the first short answer
	empties, eofs        int
	steps                int // how many times the limit was moved
	checks               int
	reached              int64 // highest value of Contiguous

	problem string
}

type modelByte struct {
	asks  uint8 // number of outstanding requests for the byte
	fresh uint8 // how many times the byte arrived while it was missing
	again uint8 // how many times the byte arrived
}

type modelRequest struct {
	off     int64
	n       int
	session int
}

const noEnd = int64(1<<63 - 1)

// newModel makes a plan from c, and its model. The file must never have more than `most` bytes.
func newModel(c Config, most int64) *model {
	m := &model{c: c, p: New(c), bytes: make([]modelByte, most+1), out: map[uint32]modelRequest{}}
	m.k, m.chunk = m.p.Link(), m.p.Chunk()
	m.start, m.expected, m.end, m.limit = c.Offset, noEnd, noEnd, noEnd
	if c.Size >= 0 {
		m.expected = c.Offset + c.Size
		if !c.UntilEOF {
			m.end = m.expected
		}
	}
	m.reached = m.start
	return m
}

func (m *model) fail(format string, args ...any) {
	if m.problem == "" {
		m.problem = fmt.Sprintf(format, args...)
	}
}

func (m *model) done(i int64) bool { return m.bytes[i].fresh > 0 }

// in returns end, or the number of bytes in the model if that is smaller.
func (m *model) in(end int64) int64 { return min(end, int64(len(m.bytes))) }

func (m *model) failed() bool { return m.remote.at(m.end) != nil || m.local.at(m.end) != nil }

// contiguous returns the offset of the first byte that is not done.
func (m *model) contiguous() int64 {
	i := m.reached
	for i < m.in(m.end) && m.done(i) {
		i++
	}
	return i
}

// missing returns the offset of the first byte of a request that has not arrived. It returns false if
// all bytes of the request have arrived.
func (m *model) missing(r modelRequest) (int64, bool) {
	for i := r.off; i < min(r.off+int64(r.n), m.end); i++ {
		if i >= int64(len(m.bytes)) || !m.done(i) {
			return i, true
		}
	}
	return 0, false
}

// asked returns how many outstanding requests are still needed, and how many of these begin at or
// after the expected end of the file.
func (m *model) asked() (all, beyond int) {
	for _, r := range m.out {
		if _, missing := m.missing(r); missing {
			all++
			if r.off >= m.expected {
				beyond++
			}
		}
	}
	return all, beyond
}

// next calls Plan.Next, and checks the result.
func (m *model) next(now time.Time, session int) (Request, bool) {
	window, chunk, contiguous := int64(m.k.Window()), m.p.Chunk(), m.contiguous()
	total, onSession := m.k.bytes.out, m.k.Outstanding(session)
	_, beyond := m.asked()
	r, ok := m.p.Next(now, session)
	if !ok {
		return r, ok
	}
	m.requests++
	repeated := r.Offset < int64(len(m.bytes)) && m.bytes[r.Offset].asks > 0
	end := r.Offset + int64(r.Len)
	_, used := m.out[r.ID]
	switch {
	case r.Len <= 0 || r.Len > chunk && !m.c.Repeat || r.Len > m.chunk || r.Len > m.k.Outstanding(session)-onSession:
		m.fail("%+v of a plan with chunks of %d, on a session with %d before and %d after", r, chunk, onSession, m.k.Outstanding(session))
	case r.Offset < m.start || end > m.end:
		m.fail("%+v outside [%d, %d)", r, m.start, m.end)
	case m.failed():
		m.fail("%+v after a failure", r)
	case int64(onSession+r.Len) > m.k.sessionBytes:
		m.fail("%+v on a session with %d bytes of %d outstanding", r, onSession, m.k.sessionBytes)
	case total > 0 && total+int64(r.Len) > window:
		m.fail("%+v with %d bytes outstanding and a window of %d", r, total, window)
	case total+int64(r.Len) > m.k.bytes.ceiling:
		m.fail("%+v with %d bytes outstanding, and at most %d", r, total, m.k.bytes.ceiling)
	case used || r.ID>>31 != 0:
		m.fail("%+v has a bad id, used %v", r, used)
	case end > m.limit && !repeated:
		m.fail("%+v beyond the limit %d", r, m.limit)
	case m.c.Span > 0 && end-contiguous > m.c.Span:
		m.fail("%+v beyond the span, %d missing", r, contiguous)
	case end > m.expected && r.Offset < m.expected:
		m.fail("%+v across the expected end %d", r, m.expected)
	}
	for i := r.Offset; i < m.in(end); i++ {
		if m.done(i) {
			m.fail("%+v asks for byte %d, which is there", r, i)
		}
		if m.bytes[i].asks++; m.bytes[i].asks > 1 && !m.c.Repeat || m.bytes[i].asks > 2 {
			m.fail("%+v asks for byte %d for the %dth time", r, i, m.bytes[i].asks)
		}
	}
	for _, o := range m.out {
		if !m.c.Repeat {
			break // the loop above has already checked that no byte is requested twice
		}
		if o.off < end && r.Offset < o.off+int64(o.n) {
			if o.session == session {
				m.fail("%+v was asked on its session already: %+v", r, o)
			}
		}
	}
	if beyond > 0 && r.Offset >= m.expected && m.expected < m.end && !repeated {
		m.fail("%+v beyond the expected end %d, with another there", r, m.expected)
	}
	m.out[r.ID] = modelRequest{r.Offset, r.Len, session}
	return r, ok
}

// forget removes a request.
func (m *model) forget(id uint32) modelRequest {
	r := m.out[id]
	delete(m.out, id)
	for i := r.off; i < m.in(r.off+int64(r.n)); i++ {
		m.bytes[i].asks--
	}
	return r
}

// store stores n bytes that arrived for a request, as a driver does, and returns those that were
// missing.
func (m *model) store(id uint32, n int) Range {
	pend, ok := m.k.Find(id)
	r, known := m.out[id]
	if !ok || !known || pend.Plan != m.p || pend.Request != (Request{id, r.off, r.n}) || pend.Session != r.session {
		m.fail("request %d is %+v, and found as %+v, %v", id, r, pend, ok)
		return Range{}
	}
	first, some := m.missing(r)
	if !some && pend.Missing != (Range{}) || some && pend.Missing.Start != first {
		m.fail("request %+v lacks %+v, and not %d, %v", r, pend.Missing, first, some)
	}
	for i := r.off; i < m.in(r.off+int64(n)); i++ {
		m.bytes[i].again++
	}
	return Range{pend.Missing.Start, min(pend.Missing.End, r.off+int64(n))}
}

// reply reports that n bytes have moved.
func (m *model) reply(now time.Time, id uint32, n int) {
	r := m.out[id]
	if first, ok := m.missing(r); ok {
		for i := first; i < min(r.off+int64(n), m.end); i++ {
			if i >= int64(len(m.bytes)) {
				m.fail("byte %d is beyond all files", i)
				break
			}
			m.bytes[i].fresh++
		}
	}
	if n == 0 {
		m.empties++
	}
	m.forget(id)
	if !m.p.Reply(now, id, n) {
		m.fail("reply of %d bytes to %+v is not accepted", n, r)
	}
	if m.p.remote.err == ErrNoProgress {
		m.remote.note(m.p.remote.off, ErrNoProgress)
	}
	if m.p.Reply(now, id, n) || m.p.EOF(id) || m.p.Failed(now, id, errUnnamed) {
		m.fail("a second answer to %+v is accepted", r)
	}
}

func (m *model) eof(id uint32) {
	m.eofs++
	r := m.forget(id)
	if first, ok := m.missing(r); ok {
		m.end = min(m.end, first)
		m.expected = min(m.expected, m.end)
	}
	if !m.p.EOF(id) {
		m.fail("end of file at %+v is not accepted", r)
	}
}

func (m *model) endAt(end int64) {
	m.end = min(m.end, max(end, m.contiguous()))
	m.expected = min(m.expected, m.end)
	m.p.EndAt(end)
}

// failure reports an error, either remote or local.
func (m *model) failure(now time.Time, id uint32, local bool) {
	r := m.forget(id)
	f := &m.remote
	if local {
		f = &m.local
	}
	first, ok := m.missing(r)
	err := fmt.Errorf("error at %d", first)
	for _, o := range m.out {
		if ok && o.off <= first && first < o.off+int64(o.n) {
			ok = false
		}
	}
	if ok {
		f.note(first, err)
	}
	accepted := false
	if local {
		accepted = m.p.LocalFailed(id, err)
	} else {
		accepted = m.p.Failed(now, id, err)
	}
	if !accepted {
		m.fail("error of %+v is not accepted", r)
	}
}

// lost removes the requests of a session from the model. The caller must also call Link.SessionLost.
func (m *model) lost(session int) {
	for id, r := range m.out {
		if r.session == session {
			m.forget(id)
		}
	}
}

func (m *model) setLimit(to int64) {
	m.limit, m.flushed = to, false
	m.steps++
	m.p.Limit(to)
}

func (m *model) flush() {
	m.flushed = true
	m.p.Flush()
}
