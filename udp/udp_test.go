package udp

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func TestDatagrams(t *testing.T) {
	for _, tt := range []struct {
		data    string
		segment int
		want    []string
	}{
		{"", 0, []string{""}},
		{"", 4, []string{""}},
		{"abc", 0, []string{"abc"}},
		{"abc", -1, []string{"abc"}},
		{"abc", 4, []string{"abc"}},
		{"abcd", 4, []string{"abcd"}},
		{"abcde", 4, []string{"abcd", "e"}},
		{"abcdefgh", 4, []string{"abcd", "efgh"}},
		{"abc", 1, []string{"a", "b", "c"}},
	} {
		m := Message{Data: []byte(tt.data), Segment: tt.segment}
		var got []string
		for d := range m.Datagrams() {
			got = append(got, string(d))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Datagrams of %q by %d = %q, want %q", tt.data, tt.segment, got, tt.want)
		}
	}
}

func TestDatagramsStop(t *testing.T) {
	m := Message{Data: []byte("abcdef"), Segment: 2}
	for d := range m.Datagrams() {
		if string(d) != "ab" {
			t.Errorf("continued to %q after a break", d)
		}
		break
	}
}

// An append to one datagram must not overwrite the next one.
func TestDatagramsCapacity(t *testing.T) {
	m := Message{Data: []byte("abcd"), Segment: 2}
	for d := range m.Datagrams() {
		_ = append(d, 'X')
	}
	if string(m.Data) != "abcd" {
		t.Errorf("appending to datagrams made the message %q", m.Data)
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		length, segment, offset, segments int
		want                              piece
	}{
		{0, 0, 0, 64, piece{}},
		{0, 9, 0, 64, piece{}},
		{100, 0, 0, 64, piece{length: 100}},
		{100, 100, 0, 64, piece{length: 100}},
		{100, 101, 0, 64, piece{length: 100}},
		{101, 100, 0, 64, piece{length: 101, segment: 100}},
		{101, 100, 0, 1, piece{length: 100}},
		{101, 100, 100, 1, piece{offset: 100, length: 1}},
		{6500, 100, 0, 64, piece{length: 6400, segment: 100}},         // more than 64 segments
		{6500, 100, 6400, 64, piece{offset: 6400, length: 100}},       // the rest is one datagram
		{65535, 1472, 0, 64, piece{length: 44 * 1472, segment: 1472}}, // more than 64 KiB
		{65507, 1472, 44 * 1472, 64, piece{offset: 44 * 1472, length: 65507 - 44*1472}},
		{70000, 32753, 0, 64, piece{length: 2 * 32753, segment: 32753}},
		{70000, 32754, 0, 64, piece{length: 32754}},  // two datagrams would not fit
		{140000, 70000, 0, 64, piece{length: 70000}}, // the kernel refuses this with an error
	} {
		m := Message{Data: make([]byte, tt.length), Segment: tt.segment}
		if got := m.next(tt.offset, tt.segments); got != tt.want {
			t.Errorf("%d bytes by %d, at %d, at most %d: %+v, want %+v",
				tt.length, tt.segment, tt.offset, tt.segments, got, tt.want)
		}
	}
}

// However a message is split into pieces, no data is lost, and all datagrams keep their order and
// size.
func FuzzDatagrams(f *testing.F) {
	f.Add([]byte("abcdefg"), 3, 2)
	f.Add([]byte{}, 1, 1)
	f.Add(bytes.Repeat([]byte("x"), 66000), 1472, 64)
	f.Fuzz(func(t *testing.T, data []byte, segment, segments int) {
		segments = max(1, min(segments, maxSegments))
		m := Message{Data: data, Segment: segment}
		var want []string
		for d := range m.Datagrams() {
			want = append(want, string(d))
		}
		if joined := fmt.Sprint(want); segment <= 0 && joined != fmt.Sprint([]string{string(data)}) {
			t.Fatalf("unsegmented message came apart")
		}
		var got []string
		for offset := 0; ; {
			p := m.next(offset, segments)
			if p.segment > 0 && (p.length > maxPayload || p.length > segments*segment) {
				t.Fatalf("the kernel would refuse %+v", p)
			}
			part := Message{Data: data[offset:][:p.length], Segment: p.segment}
			for d := range part.Datagrams() {
				got = append(got, string(d))
			}
			if offset += p.length; offset >= len(data) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces: %d datagrams, want %d", len(got), len(want))
		}
	})
}
