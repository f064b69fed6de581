package rules

import "testing"

// Names that Windows may take for those of other files are refused there, and no more.
func TestShortNames(t *testing.T) {
	for name, want := range map[string]bool{
		"HAUL-A~1.PAR": true, "secret~1.key": true, "d/LONGDI~2/f": true, "d/f~10": true, "A~1": true, "~1": true,
		"HA1A2B~1.TXT": true, "f~1. ": true, "f~1.txt..": true, "f~999999.x": true, "ÄÖÜÄÖÜ~1.ÄÖÜ": true, "a~~1": true,
		"f": false, "f~": false, "f~a": false, "f~1a": false, "~": false, "file~1.html": false, "longname~1": false,
		"f.txt~1": false, "backup~1.tar.gz": false, "f~1.a.b": false, "a~1b/c": false, "HAUL~10000": false,
	} {
		if got := hasShort(name); got != want {
			t.Errorf("%q could be a short name: %v", name, got)
		}
	}
}
