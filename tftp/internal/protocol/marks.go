package protocol

// marks records which blocks beyond the first gap have arrived. It is a ring with one bit for each
// block of a window. All operations except reset take constant time.
type marks struct {
	words []uint64
	count int   // number of marked blocks
	high  int64 // highest block marked since the last reset
}

// reset empties the ring and makes it large enough for a window.
func (m *marks) reset(window int64) {
	// The size is a power of two, so that a bit mask yields the index of a block.
	n := int64(1)
	for n*64 < window {
		n *= 2
	}
	if int64(cap(m.words)) < n {
		m.words = make([]uint64, n)
	}
	m.words = m.words[:n]
	clear(m.words)
	m.count, m.high = 0, 0
}

func (m *marks) place(block int64) (word *uint64, bit uint64) {
	i := block & int64(len(m.words)*64-1)
	return &m.words[i/64], 1 << (i % 64)
}

// has reports whether block is marked.
func (m *marks) has(block int64) bool {
	if m.count == 0 {
		return false
	}
	w, bit := m.place(block)
	return *w&bit != 0
}

// set marks a block.
func (m *marks) set(block int64) {
	w, bit := m.place(block)
	*w |= bit
	m.count++
	m.high = max(m.high, block)
}

// take unmarks a block, and reports whether it was marked.
func (m *marks) take(block int64) bool {
	if !m.has(block) {
		return false
	}
	w, bit := m.place(block)
	*w &^= bit
	m.count--
	return true
}

// any reports whether a block beyond the given one is marked.
func (m *marks) any(block int64) bool {
	return m.count > 0 && m.high > block
}
