//go:build linux

package interop

import (
	"math/rand/v2"
	"slices"
)

// A spoiler loses, repeats and reorders packets, by chance.
type spoiler struct {
	random *rand.Rand
	lose   float64 // part of the packets that are lost, either way
	double float64 // that come twice
	swap   float64 // that come after the next one

	lost    bool     // nothing became of the packet sent last
	late    []byte   // on its way out, behind the next
	waiting [][]byte // have come, but are handed over later
	held    []byte   // has come, and is handed over behind the next
}

// out returns what becomes of a packet that is sent. A nil spoiler leaves it.
func (s *spoiler) out(b []byte) (out [][]byte) {
	if s == nil {
		return [][]byte{b}
	}
	defer func() { s.lost = len(out) == 0 }()
	switch x := s.random.Float64(); {
	case x < s.lose:
	case x < s.lose+s.double:
		out = append(out, b, b)
	case x < s.lose+s.double+s.swap && s.late == nil:
		s.late = slices.Clone(b)
		return nil
	default:
		out = append(out, b)
	}
	if s.late != nil {
		out = append(out, s.late)
		s.late = nil
	}
	return out
}

// in takes a packet that has come, nil for none, and returns the next to be
// seen, or nil.
func (s *spoiler) in(b []byte) []byte {
	if s == nil {
		return b
	}
	if b == nil {
		return s.next()
	}
	switch x := s.random.Float64(); {
	case x < s.lose:
	case x < s.lose+s.double:
		s.waiting = append(s.waiting, slices.Clone(b), slices.Clone(b))
	case x < s.lose+s.double+s.swap && s.held == nil:
		s.held = slices.Clone(b)
		return s.next()
	default:
		s.waiting = append(s.waiting, slices.Clone(b))
	}
	if s.held != nil {
		s.waiting = append(s.waiting, s.held)
		s.held = nil
	}
	return s.next()
}

func (s *spoiler) next() []byte {
	if len(s.waiting) == 0 {
		return nil
	}
	b := s.waiting[0]
	s.waiting = s.waiting[1:]
	return b
}
