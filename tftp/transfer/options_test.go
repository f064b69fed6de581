package transfer

import (
	"strings"
	"testing"
)

// Sets of options are written as they are read, and an unknown name is refused.
func TestOptionSet(t *testing.T) {
	all := strings.Join(optionNames[:], ",")
	for names, want := range map[string]string{"tsize": "tsize", "TSize,BLKSIZE,tsize": "blksize,tsize", all: all} {
		if set, err := ParseOptionSet(names); err != nil || set.String() != want {
			t.Errorf("%s: %v (%v), want %s", names, set, err, want)
		}
	}
	for _, names := range []string{"", ",", "tsize,", "tsize, blksize", "tsiz", "multicast", "tsize\x00", "ｔsize"} {
		if set, err := ParseOptionSet(names); err == nil || !strings.Contains(err.Error(), "the options are blksize,") || set != 0 {
			t.Errorf("%q is read as %v: %v", names, set, err)
		}
	}
}

// A name matches in any case, and only as a whole.
func TestOptionSetHas(t *testing.T) {
	set, err := ParseOptionSet("blksize,rollover")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"blksize": true, "BlkSize": true, "rollover": true, "blksize2": false, "blksiz": false, "": false, "tsize": false, "unknown": false} {
		if set.Has([]byte(name)) != want {
			t.Errorf("%q is refused: %v", name, !want)
		}
	}
}
