package wire

import (
	"testing"
	"time"
)

// TestAttrs compares the packet for every combination of attributes with a packet that the test
// builds itself.
func TestAttrs(t *testing.T) {
	fields := []struct {
		flag AttrFlags
		wire []any
		set  func(a *Attrs)
	}{
		{AttrSize, []any{uint64(5)}, func(a *Attrs) { a.SetSize(5) }},
		{AttrOwner, []any{uint32(1), uint32(2)}, func(a *Attrs) { a.SetOwner(1, 2) }},
		{AttrMode, []any{uint32(0o100600)}, func(a *Attrs) { a.SetMode(0o100600) }},
		{AttrTimes, []any{uint32(3), uint32(4)}, func(a *Attrs) { a.SetTimes(time.Unix(3, 0), time.Unix(4, 999)) }},
	}
	for set := range 1 << len(fields) {
		var want Attrs
		body := []any{uint32(0)}
		for i, f := range fields {
			if set>>i&1 != 0 {
				f.set(&want)
				body[0] = body[0].(uint32) | uint32(f.flag)
				body = append(body, f.wire...)
			}
		}
		b := build(TypeAttrs, 1, body...)
		if got := AppendAttrs(nil, 1, want); string(got) != string(b) {
			t.Errorf("%+v: wrote %x, want %x", want, got, b)
		}
		if p := mustParseReply(t, b); p.Attrs != want {
			t.Errorf("%x: read %+v, want %+v", b, p.Attrs, want)
		}
		// Flags of later versions and extended attributes have no effect.
		body[0] = body[0].(uint32) | 0x10 | uint32(AttrExtended)
		b = build(TypeAttrs, 1, append(body, uint32(2), "type", "data", "", "")...)
		if p := mustParseReply(t, b); p.Attrs != want {
			t.Errorf("%x: read %+v, want %+v", b, p.Attrs, want)
		}
		want.Flags |= 0x10 | AttrExtended
		if p := mustParseReply(t, AppendAttrs(nil, 1, want)); p.Attrs.Flags != want.Flags&attrKnown {
			t.Errorf("%+v: sent as %+v", want, p.Attrs)
		}
	}
}

// TestExtendedAttributesInNames tests extended attributes in entries that other entries follow, so
// that reading must skip exactly the right number of bytes.
func TestExtendedAttributesInNames(t *testing.T) {
	b := build(TypeName, 1, uint32(2),
		"a", "long a", uint32(AttrExtended|AttrMode), uint32(0o100644), uint32(1), "user.mime", "text/plain",
		"b", "long b", uint32(AttrSize), uint64(9))
	p := mustParseReply(t, b)
	if got, _ := p.text(0); got != `NAME id 1 name "a" long "long a" mode -rw-r--r-- 100644 name "b" long "long b" size 9` {
		t.Error(got)
	}
	if _, ok := p.Names.One(); ok {
		t.Error("two names pass for one")
	}
	p = mustParseReply(t, AppendName(nil, 1, "/home"))
	if e, ok := p.Names.One(); !ok || string(e.Name) != "/home" || e.Attrs != (Attrs{}) {
		t.Errorf("%+v, %v", e, ok)
	}
	if _, ok := (Names{}).One(); ok {
		t.Error("no name passes for one")
	}
}

func TestTimes(t *testing.T) {
	for _, test := range []struct {
		time time.Time
		want uint32
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(-1, 0), 0},
		{time.Time{}, 0},
		{time.Unix(1_700_000_000, 999_999_999), 1_700_000_000},
		{time.Unix(1<<31, 0), 1 << 31}, // in 2038
		{time.Unix(1<<32-1, 0), 1<<32 - 1},
		{time.Unix(1<<32, 0), 1<<32 - 1}, // in 2106
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1<<32 - 1},
	} {
		var a Attrs
		a.SetTimes(test.time, time.Unix(1, 0))
		if a.Atime != test.want || a.Mtime != 1 || !a.Accessed().Equal(time.Unix(int64(test.want), 0)) || a.Modified().Unix() != 1 {
			t.Errorf("%v: %+v", test.time, a)
		}
	}
}
