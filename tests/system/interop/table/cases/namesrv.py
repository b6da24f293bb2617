"""The name server."""

from ..case import Case

CASES = (
    Case("updateKvConfig -s Space -k key -v value"),
    Case("deleteKvConfig -s Space -k key"),
    Case("deleteKvConfig -s Space -k key "),
    Case("getNamesrvConfig"),
    Case("updateNamesrvConfig -k orderMessageEnable -v true"),
    Case("updateNamesrvConfig -k kvConfigPath -v /tmp/x"),
    Case("wipeWritePerm -b broker-a"),
    Case("topicRoute -l -t Asked"),
    Case("addWritePerm -b broker-a"),
    Case("wipeWritePerm -b no-broker"),
    Case("addWritePerm -b no-broker"),
)
