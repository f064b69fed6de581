package doctor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// compare compares the contents that the visits have fetched. A visit breaks a rule if its content
// differs from the content that most visits fetched, or if the size in its OACK differs from the
// size of the file.
func compare(visits []*visit) {
	reference := majority(visits)
	for _, v := range visits {
		if v.content == nil {
			continue
		}
		sum := sha256.Sum256(v.content)
		v.report.Bytes, v.report.SHA256 = int64(len(v.content)), hex.EncodeToString(sum[:])
		if v != reference && !v.agrees(reference) {
			v.breaks(v.differs, Failed, "%s, where %s has %s", v.amount(), reference.report.Persona, reference.amount())
		}
	}
	if reference == nil {
		return
	}
	for _, v := range visits {
		length := int64(len(reference.content))
		if v.size >= 0 && (v.size < length || reference.report.Whole && v.size != length) && len(v.report.Findings) == 0 {
			bad := Warning
			if v.trusts {
				bad = Failed
			}
			v.breaks(ruleSizeWrong, bad, "tsize says %d, the file has %s", v.size, reference.amount())
		}
	}
}

// majority returns the visit whose content agrees with that of the largest number of visits, or nil
// if no visit fetched the file.
func majority(visits []*visit) *visit {
	var best *visit
	most := -1
	for _, v := range visits {
		if v.content == nil {
			continue
		}
		n := 0
		for _, w := range visits {
			if w.content != nil && v.agrees(w) {
				n++
			}
		}
		// If two visits agree with equally many others, prefer a whole file.
		if n > most || n == most && v.report.Whole && !best.report.Whole {
			best, most = v, n
		}
	}
	return best
}

// agrees reports whether two visits may have seen the same file. Each of them may have fetched only
// its beginning.
func (v *visit) agrees(w *visit) bool {
	n := min(len(v.content), len(w.content))
	return bytes.Equal(v.content[:n], w.content[:n]) &&
		(len(v.content) <= len(w.content) || !w.report.Whole) &&
		(len(w.content) <= len(v.content) || !v.report.Whole)
}
