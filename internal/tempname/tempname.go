// Package tempname defines the names of the files that haul is writing, or leaves behind to resume
// from, and the keys in these names. They are the same on every disk and server, so that a later
// version of haul can resume an upload of an earlier one.
package tempname

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Kind is the ending of a name, which says what the file is.
type Kind string

// The kinds of files.
const (
	Part       Kind = ".part"   // an upload to a directory; it ends with its process
	Keep       Kind = ".keep"   // an upload that can be resumed
	Checkpoint Kind = ".mark"   // records how much of a Keep file is safe
	Upload     Kind = ".upload" // an upload by the SFTP client
	Record     Kind = ".record" // records how much of an Upload file is safe, or that the copy of a directory is unfinished
	Case       Kind = ".case"   // a directory that shows whether the target ignores case
)

// A name consists of the prefix, a key of keyBytes letters and digits, and a kind.
const (
	prefix   = ".haul-"
	keyBytes = 26 // of base 32: 130 bits
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// New returns the name for a key.
func New(key string, k Kind) string { return prefix + key + string(k) }

// Random returns a key that nobody can guess.
func Random() string { return rand.Text()[:keyBytes] }

// RunBytes is the number of characters, 65 bits, at the beginning of a key that are the ID of a
// run, if the key has one.
const RunBytes = 13

// NewRun returns the ID of a run.
func NewRun() string { return Random()[:RunBytes] }

// RandomOf returns a key of a run that nobody can guess. If run is "", it is like [Random].
func RandomOf(run string) string { return run + Random()[len(run):] }

// RunOf returns the run ID in a name for which [Is] reports true. If the key of the name does not
// begin with a run ID, the result is not the ID of any run.
func RunOf(base string) string { return base[len(prefix):][:RunBytes] }

// Hash returns the key for a descriptive text.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:keyBytes]
}

// Resume returns the key for resumable uploads of base, in its directory, by the user who.
func Resume(who, base string) string {
	return Hash(fmt.Sprintf("haul upload\x00%d\x00%s\x00%s", len(who), who, base))
}

// Source returns a hash of the text that describes the content of an upload. A [Checkpoint] stores the
// first eight bytes in little endian, and a [Record] in big endian.
func Source(source string) [sha256.Size]byte {
	return sha256.Sum256([]byte("haul source\x00" + source))
}

// Is reports whether a name, without its directory, is a temporary name of one of the kinds.
// Without kinds, any kind counts.
func Is(base string, kinds ...Kind) bool {
	s, ok := strings.CutPrefix(base, prefix)
	if !ok || len(s) < keyBytes || !IsKey(s[:keyBytes]) {
		return false
	}
	if len(kinds) == 0 {
		kinds = []Kind{Part, Keep, Checkpoint, Upload, Record, Case}
	}
	for _, k := range kinds {
		if s[keyBytes:] == string(k) {
			return true
		}
	}
	return false
}

// IsKey reports whether text is a key.
func IsKey(text string) bool { return len(text) == keyBytes && strings.Trim(text, alphabet) == "" }

// May reports whether a file system might treat the last element of a path as a name of one of the
// kinds. It may ignore case, or drop the characters that Windows drops from the end of a name.
func May(path string, kinds ...Kind) bool {
	base := strings.Map(Plain, path[strings.LastIndexByte(path, '/')+1:])
	base = strings.TrimRight(base, " .")
	key, ok := strings.CutPrefix(base, strings.ToUpper(prefix))
	if !ok {
		return false
	}
	for _, k := range kinds {
		if key, ok := strings.CutSuffix(key, strings.ToUpper(string(k))); ok {
			return IsKey(key)
		}
	}
	return false
}

// Plain returns the upper-case ASCII letter that a file system might confuse r with: K for the
// Kelvin sign, for example. It returns -1 for characters that some file systems ignore, such as
// invisible joiners.
func Plain(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToUpper(r)
	}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f < utf8.RuneSelf {
			return unicode.ToUpper(f)
		}
	}
	if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}
