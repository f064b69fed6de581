package tempname_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/tempname"
)

// The names must never change, so that haul finds temporary files that earlier versions left behind.
func TestStable(t *testing.T) {
	source := tempname.Source("10 bytes")
	for what, c := range map[string][2]string{
		"kept upload":    {tempname.New(tempname.Resume("me", "file"), tempname.Keep), ".haul-5OQQL74OMK5VFBBV566YSAV6Z5.keep"},
		"its checkpoint": {tempname.New(tempname.Resume("me", "file"), tempname.Checkpoint), ".haul-5OQQL74OMK5VFBBV566YSAV6Z5.mark"},
		"a record":       {tempname.New(tempname.Resume("me", "file"), tempname.Record), ".haul-5OQQL74OMK5VFBBV566YSAV6Z5.record"},
		"a directory":    {tempname.New(tempname.Hash("haul tree\x00\"w\" \"o\" \"s\" \"\""), tempname.Record), ".haul-PR6FEUADZRI2HUB3XWVJQPFPTH.record"},
		"the source":     {hex.EncodeToString(source[:8]), "5613543e547f6dce"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %s, and was %s", what, c[0], c[1])
		}
	}
}

func TestNames(t *testing.T) {
	kinds := []tempname.Kind{tempname.Part, tempname.Keep, tempname.Checkpoint, tempname.Upload, tempname.Record, tempname.Case}
	for _, k := range kinds {
		name := tempname.New(tempname.Random(), k)
		for _, other := range kinds {
			if is := tempname.Is(name, other); is != (k == other) {
				t.Errorf("%s is of the kind %s: %v", name, other, is)
			}
		}
		if !tempname.Is(name) || tempname.Is(strings.ToLower(name)) || tempname.Is("d/"+name) || tempname.Is(name+".") {
			t.Errorf("%s, or another name that is like it", name)
		}
	}
	for _, name := range []string{"", ".haul-", ".haul-.part", ".haul-ABCDEFGHIJKLMNOPQRSTUVWX27", ".haul-ABCDEFGHIJKLMNOPQRSTUVWX27.other", ".haul-ABCDEFGHIJKLMNOPQRSTUVWX2.part", ".haul-ABCDEFGHIJKLMNOPQRSTUVWX271.part"} {
		if tempname.Is(name) {
			t.Errorf("%q is a temporary name", name)
		}
	}
}

func TestMay(t *testing.T) {
	for name, want := range map[string]bool{
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX27.part":       true,
		"d/e/.haul-ABCDEFGHIJKLMNOPQRSTUVWX27.part":   true,
		".HAUL-abcdefghijklmnopqrstuvwx27.PART. ":     true,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX27.part/f":     false,
		".haul-ABCDEFGHIJ\u212aLMNOPQRSTUVWX27.part":  true, // the Kelvin sign
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX27.mar\u212a":  true,
		".haul\u200c-ABCDEFGHIJKLMNOPQRSTUVWX27.part": true, // a joiner
		".haul-ABCDEFGHIJ\xffLMNOPQRSTUVWX27.part":    false,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX2.part":        false,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX277.part":      false,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX2-.part":       false,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX27.upload":     false, // of another kind
		"haul-ABCDEFGHIJKLMNOPQRSTUVWX27.part":        false,
		".haul-ABCDEFGHIJKLMNOPQRSTUVWX27":            false,
		".haul-.part":                                 false,
		"":                                            false,
		"f":                                           false,
	} {
		if got := tempname.May(name, tempname.Part, tempname.Checkpoint); got != want {
			t.Errorf("May(%q) = %v, want %v", name, got, want)
		}
	}
}
