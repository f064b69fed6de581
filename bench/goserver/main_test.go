package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestParseRequest(t *testing.T) {
	for _, test := range []struct {
		packet string
		want   request
	}{
		{"\x00\x01f\x00octet\x00", request{name: "f", block: 512}},
		{"\x00\x02f\x00octet\x00BLKSIZE\x001468\x00tsize\x009\x00", request{write: true, name: "f", block: 1468, size: 9, asksBlock: true, asksSize: true}},
		{"\x00\x01f\x00octet\x00blksize\x0099999\x00", request{name: "f", block: maxBlock, asksBlock: true}},
		{"\x00\x01f\x00octet\x00blksize\x007\x00tsize\x00enable\x00odd", request{name: "f", block: 512}},
	} {
		if got, err := parseRequest([]byte(test.packet)); err != nil || got != test.want {
			t.Errorf("%q: %+v, %v, want %+v", test.packet, got, err, test.want)
		}
	}
	for _, packet := range []string{"", "\x00", "\x00\x03\x00\x01", "\x00\x01f\x00", "\x00\x01"} {
		if got, err := parseRequest([]byte(packet)); err == nil {
			t.Errorf("%q was taken for %+v", packet, got)
		}
	}
}

func TestConfirm(t *testing.T) {
	r := request{block: 1468, asksBlock: true, asksSize: true}
	if got, want := string(r.confirm(9)), "\x00\x06blksize\x001468\x00tsize\x009\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (request{asksSize: true}).confirm(0); got != nil {
		t.Errorf("an empty file's size alone is answered by %q, want DATA", got)
	}
}

// Uploads are preferred to files, and their names do not lead outside.
func TestStore(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := &server{root: root, uploads: map[string][]byte{}}
	if err := s.store("/a/../f", []byte("content")); err != nil {
		t.Fatal(err)
	}
	r, size, err := s.open("f")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "content" || size != 7 || err != nil {
		t.Errorf("got %q of %d bytes, %v", b, size, err)
	}
	if _, _, err := s.open("../f2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	s.stored = maxStored
	if err := s.store("g", []byte("more")); err == nil || !strings.Contains(err.Error(), "store g") {
		t.Errorf("past the limit: %v", err)
	}
	if err := s.store("f", []byte("shorter")); err != nil {
		t.Errorf("in place of as much: %v", err)
	}
}
