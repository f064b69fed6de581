//go:build linux

package interop

import (
	"math/rand/v2"
	"slices"
)

// A spoiler randomly loses, duplicates and reorders packets.
type spoiler struct {
	random *rand.Rand
	lose   float64 // fraction of the packets that are lost, either way
	double float64 // fraction that are duplicated
	swap   float64 // fraction that arrive after the next one

	lost    bool     // the last packet sent was lost
	late    []byte   // is sent after the next packet
	waiting [][]byte // packets that have arrived, but are delivered later
	held    []byte   // has arrived, and is delivered after the next packet
}

// out returns the packets to send instead of a packet. A nil spoiler changes nothing.
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

// in receives a packet, nil for none, and returns the next one to deliver, or nil.
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
