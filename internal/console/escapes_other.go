//go:build !windows

package console

import "os"

// takesEscapes reports whether a terminal takes escape sequences. All do here.
func takesEscapes(*os.File) bool { return true }
