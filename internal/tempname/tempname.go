// Package tempname defines the names of temporary files, and the keys in these names. Temporary files
// are written by haul, and some stay behind so that an upload can be resumed. The names are the same
// on every disk and server, and must not change, so that a later version of haul can resume an
// upload of an earlier one.
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

// A Kind is the ending of a temporary file's name. It says what the file contains.
type Kind string

// The kinds of files.
const (
	Part       Kind = ".part"   // an upload to a directory; it cannot be resumed after its process has exited
	Keep       Kind = ".keep"   // an upload that can be resumed
	Checkpoint Kind = ".mark"   // records how many bytes of a Keep file are safe
	Upload     Kind = ".upload" // an upload by the SFTP client
	// Record says how many bytes of an Upload file are safe, or that the copy of a directory is
	// unfinished.
	Record Kind = ".record"
	Case   Kind = ".case" // a directory that is made to find out whether the target ignores case
)

// A name consists of the prefix, a key of keyBytes letters and digits, and a kind.
const (
	prefix   = ".haul-"
	keyBytes = 26 // digits of base 32, which hold 130 bits
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// New returns the name with a key and a kind.
func New(key string, k Kind) string { return prefix + key + string(k) }

// Random returns a key that nobody can guess.
func Random() string { return rand.Text()[:keyBytes] }

// RunBytes is the length of a run's ID in characters, which hold 65 bits. A run is one execution of
// haul. The keys of its temporary files may begin with its ID, so that later runs can find out
// whether the files are still in use.
const RunBytes = 13

// NewRun returns the ID of a run.
func NewRun() string { return Random()[:RunBytes] }

// RandomOf returns a key that begins with the ID of a run. Nobody can guess the rest. If run is "",
// RandomOf is like [Random].
func RandomOf(run string) string { return run + Random()[len(run):] }

// RunOf returns the run ID in a name for which [Is] reports true. If the key of the name does not
// begin with a run ID, the result is not the ID of any run.
func RunOf(base string) string { return base[len(prefix):][:RunBytes] }

// Hash returns a key that is computed from a text. The same text always has the same key.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:keyBytes]
}

// Resume returns the key for a resumable upload. The argument who is the user, and base is the name
// of the uploaded file without its directory. The temporary file is in the same directory.
func Resume(who, base string) string {
	return Hash(fmt.Sprintf("haul upload\x00%d\x00%s\x00%s", len(who), who, base))
}

// Source returns a hash of a text that describes the source of an upload. A [Checkpoint] stores the
// first eight bytes of the hash in little endian, and a [Record] stores them in big endian.
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

// IsKey reports whether text has the form of a key.
func IsKey(text string) bool { return len(text) == keyBytes && strings.Trim(text, alphabet) == "" }

// May reports whether some file system might treat the last element of a path as a temporary name of
// one of the kinds. Some file systems ignore case, and Windows drops spaces and dots at the end of a
// name.
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

// Plain returns the upper-case form of r. If r is not ASCII, it returns the upper-case ASCII letter
// with which a file system that ignores case might confuse r, such as K for the Kelvin sign. It
// returns -1 for characters that some file systems ignore, such as invisible joiners, and other
// characters unchanged.
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
