package console

import "golang.org/x/sys/windows"

// takesEscapes makes a console accept escape sequences, and reports whether it does.
func takesEscapes(fd uintptr) bool {
	var mode uint32
	h := windows.Handle(fd)
	return windows.GetConsoleMode(h, &mode) == nil && windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
