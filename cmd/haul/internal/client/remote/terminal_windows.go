package remote

// The console that a process belongs to.
const (
	terminalIn  = "CONIN$"
	terminalOut = "CONOUT$"
)
