package wire

import "strings"

// A client uploads to files of such names until they are whole: 26 letters and digits
// between the two. What is to be resumed has a record of another such name.
const (
	UploadPrefix = ".haul-"
	UploadSuffix = ".upload"
	RecordSuffix = ".record"
	UploadRandom = 26 // of base 32: 130 bits
)

// IsUpload reports whether a name, without directory, is that of an upload under
// way, or of its record.
func IsUpload(name string) bool {
	s, ok := strings.CutPrefix(name, UploadPrefix)
	if ok {
		if s, ok = strings.CutSuffix(s, UploadSuffix); !ok {
			s, ok = strings.CutSuffix(s, RecordSuffix)
		}
	}
	return ok && len(s) == UploadRandom && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
