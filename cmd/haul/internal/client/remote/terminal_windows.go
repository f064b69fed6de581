package remote

// These are the names of this process's console.
const (
	terminalIn  = "CONIN$"
	terminalOut = "CONOUT$"
)
