package wire

import "testing"

// TestOpenFlags compares Check for all combinations of flags with the rules, which the test states
// in another way.
func TestOpenFlags(t *testing.T) {
	for f := range OpenFlags(1 << 7) { // includes one flag that version 3 does not have
		read, write := f&OpenRead != 0, f&OpenWrite != 0
		good := write || read && f&OpenAppend == 0 && f&OpenTruncate == 0
		good = good && (f&OpenExclusive == 0 || f&OpenCreate != 0)
		if err := f.Check(); (err == nil) != good {
			t.Errorf("%v: %v", f, err)
		}
	}
}

func TestOpenFlagsString(t *testing.T) {
	for f, want := range map[OpenFlags]string{
		0:                                      "0x0",
		OpenRead:                               "READ",
		OpenWrite | OpenCreate | OpenTruncate:  "WRITE|CREAT|TRUNC",
		1<<6 - 1:                               "READ|WRITE|APPEND|CREAT|TRUNC|EXCL",
		OpenRead | 0x40:                        "READ|0x40",
		OpenWrite | OpenAppend | OpenExclusive: "WRITE|APPEND|EXCL",
	} {
		if got := f.String(); got != want {
			t.Errorf("%#x: %s, want %s", uint32(f), got, want)
		}
	}
	if err := (OpenRead | OpenTruncate).Check(); err == nil || err.Error() != "open flags READ|TRUNC: APPEND and TRUNC want WRITE" {
		t.Error(err)
	}
}
