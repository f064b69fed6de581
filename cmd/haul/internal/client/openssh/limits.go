package openssh

// The bounds of a configuration. Larger ones are refused.
const (
	maxConfigFile  = 1 << 20 // bytes of a file
	maxConfigFiles = 256     // files in all, included ones counted each time
	maxDepth       = 16      // of includes, as in OpenSSH
	maxIdentities  = 100     // files of keys, and of certificates, as in OpenSSH
	maxKnownFiles  = 32      // files of host keys, as in OpenSSH
	maxFaults      = 10      // faulty lines reported at once
	maxIgnored     = 100     // entries of Destination.Ignored
)

// maxJumps bounds how many hosts a connection goes through.
const maxJumps = 8
