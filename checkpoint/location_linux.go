package checkpoint

import "syscall"

// networkFolder names the network file system that holds folder, "" for a local one or when that cannot be told.
func networkFolder(folder string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(folder, &st) != nil {
		return ""
	}
	return networkTypes[uint32(st.Type)]
}

// networkTypes holds the magic numbers of statfs(2).
var networkTypes = map[uint32]string{
	0x6969:     "nfs",
	0x517B:     "smb",
	0xFF534D42: "cifs",
	0xFE534D42: "smb2",
	0x5346414F: "afs",
	0x73757245: "coda",
	0x564C:     "ncp",
}
