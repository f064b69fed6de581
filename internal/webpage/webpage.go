// Package webpage contains the functions that web pages of a single document share. The parts of
// such a page are embedded, and a policy allows only these.
package webpage

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
)

// Part returns an embedded file. It panics if the file is missing, because that is an error of the
// build.
func Part(files fs.ReadFileFS, name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Source returns the source expression for a style or a script in a content security policy
// (CSP level 3 §2.3.1).
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
