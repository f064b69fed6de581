// Package webpage contains functions for web pages whose styles and scripts are part of the HTML
// document. These parts are embedded in the program, and a content security policy allows no others.
package webpage

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
)

// Part returns the content of an embedded file. It panics if the file is missing, because then the
// program was built wrongly.
func Part(files fs.ReadFileFS, name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Source returns the source expression that allows a style or a script with exactly this text in a
// content security policy (CSP level 3 §2.3.1).
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
