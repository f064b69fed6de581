package pipeline

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Range is the bytes from Start up to, not including, End.
type Range struct{ Start, End int64 }

// AppendDone appends the ranges that have moved, in order, those of Config.Have
// included: no two of them touch. Beyond MaxRanges the later ones are left out,
// and would be moved again.
//
// Done means handed to the store. The driver has to make that durable before it
// writes down that it is done.
func (p *Plan) AppendDone(b []Range) []Range {
	n := 0
	for i := p.pieces.first; i != none && n < MaxRanges; i = p.pieces.all[i].next {
		if s := &p.pieces.all[i]; s.state == done {
			b = append(b, Range{s.off, s.end})
			n++
		}
	}
	return b
}

// have makes the ranges done in a plan of which nothing has been asked for.
func (p *Plan) have(rs []Range) {
	if len(rs) == 0 {
		return
	}
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	ps := &p.pieces
	ps.reset(0, 0)
	pos, taken := p.start, 0
	for _, r := range rs {
		r.Start, r.End = max(r.Start, pos), min(r.End, p.expected)
		if r.Start >= r.End || taken == MaxRanges {
			continue
		}
		if pos < r.Start {
			ps.push(ps.before(none, pos, r.Start))
		}
		ps.finish(ps.before(none, r.Start, r.End))
		pos = r.End
		taken++
	}
	if pos < p.end {
		ps.push(ps.before(none, pos, p.end))
	}
}

// rangesVersion begins a resume state.
const rangesVersion = 1

// AppendRanges appends ranges as a resume state, which [ParseRanges] reads: a
// version byte, then for each range two unsigned varints, the bytes between the
// range before and this one and the bytes in it. The ranges are in order and do
// not touch, as AppendDone leaves them, and MaxRanges at most.
//
// A state does not say of which file it is, nor whether it is damaged: what
// surrounds it must.
func AppendRanges(b []byte, rs []Range) []byte {
	b = append(b, rangesVersion)
	pos := int64(0)
	for _, r := range rs {
		b = binary.AppendUvarint(b, uint64(r.Start-pos))
		b = binary.AppendUvarint(b, uint64(r.End-r.Start))
		pos = r.End
	}
	return b
}

// ParseRanges reads what AppendRanges wrote, and nothing else: a state that was
// cut in a number, with ranges that are empty or touch, beyond the highest
// offset, or more than MaxRanges, is an error.
func ParseRanges(b []byte) ([]Range, error) {
	if len(b) == 0 || b[0] != rangesVersion {
		return nil, fmt.Errorf("resume state: it does not begin with version %d", rangesVersion)
	}
	b = b[1:]
	var rs []Range
	pos := int64(0)
	for len(b) > 0 {
		if len(rs) == MaxRanges {
			return nil, fmt.Errorf("resume state: more than %d ranges", MaxRanges)
		}
		gap, rest, err := parseVarint(b)
		if err != nil {
			return nil, fmt.Errorf("resume state: range %d: start: %w", len(rs), err)
		}
		length, rest, err := parseVarint(rest)
		if err != nil {
			return nil, fmt.Errorf("resume state: range %d: length: %w", len(rs), err)
		}
		switch {
		case length == 0:
			return nil, fmt.Errorf("resume state: range %d is empty", len(rs))
		case gap == 0 && len(rs) > 0:
			return nil, fmt.Errorf("resume state: range %d touches the one before", len(rs))
		case gap > math.MaxInt64-pos || length > math.MaxInt64-pos-gap:
			return nil, fmt.Errorf("resume state: range %d ends beyond the highest offset", len(rs))
		}
		rs = append(rs, Range{pos + gap, pos + gap + length})
		pos += gap + length
		b = rest
	}
	return rs, nil
}

// parseVarint reads an unsigned varint in its shortest form that fits an int64.
func parseVarint(b []byte) (int64, []byte, error) {
	v, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errors.New("cut short")
	case n < 0 || v > math.MaxInt64:
		return 0, nil, errors.New("number too large")
	case n > 1 && b[n-1] == 0:
		return 0, nil, errors.New("number not in its shortest form")
	}
	return int64(v), b[n:], nil
}
