"""The subcommands of ``angcal``, one file each: ``add_arguments(parser)``, ``execute(options)``."""
