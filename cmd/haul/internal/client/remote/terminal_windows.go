package remote

// The console of this process.
const (
	terminalIn  = "CONIN$"
	terminalOut = "CONOUT$"
)
