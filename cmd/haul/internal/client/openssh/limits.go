package openssh

// These constants bound a configuration. A configuration that exceeds one of the first five is
// refused.
const (
	maxConfigFile  = 1 << 20 // maximum size of a file, in bytes
	maxConfigFiles = 256     // maximum number of files in total; a file counts each time it is included
	maxDepth       = 16      // maximum depth of includes, as in OpenSSH
	maxIdentities  = 100     // maximum number of key files, and of certificate files, as in OpenSSH
	maxKnownFiles  = 32      // maximum number of known_hosts files, as in OpenSSH
	maxFaults      = 10      // maximum number of faulty lines that are reported
	maxIgnored     = 100     // maximum number of entries in Destination.Ignored
)

// maxJumps is the maximum number of jump hosts of a connection.
const maxJumps = 8
